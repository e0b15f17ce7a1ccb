"""Experiments on the transport; the numbers are those of the specification (4.1 to 4.3). Those that are here measure
the network under it, before any transport is put on it."""

from tidings.lab.transport.e1 import E1
from tidings.lab.transport.e2 import E2
from tidings.lab.transport.e3 import E3
from tidings.lab.transport.e4 import E4
from tidings.lab.transport.e5 import E5

EXPERIMENTS = (E1, E2, E3, E4, E5)
