"""Experiments on the transport; the numbers are those of the specification (4.1 to 4.3). E1 to E5 measure the network
under it, before any transport is put on it; E6 to E9 ordering, and how losses are found; E10 to E16 recovery; E17
to E25 congestion control. `loss` is our own."""

from tidings.lab.transport.congestion.e17 import E17
from tidings.lab.transport.congestion.e18 import E18
from tidings.lab.transport.congestion.e19 import E19
from tidings.lab.transport.congestion.e20 import E20
from tidings.lab.transport.congestion.e21 import E21
from tidings.lab.transport.congestion.e22 import E22
from tidings.lab.transport.congestion.e23 import E23
from tidings.lab.transport.congestion.e24 import E24
from tidings.lab.transport.congestion.e25 import E25
from tidings.lab.transport.network.e1 import E1
from tidings.lab.transport.network.e2 import E2
from tidings.lab.transport.network.e3 import E3
from tidings.lab.transport.network.e4 import E4
from tidings.lab.transport.network.e5 import E5
from tidings.lab.transport.ordering.e6 import E6
from tidings.lab.transport.ordering.e7 import E7
from tidings.lab.transport.ordering.e8 import E8
from tidings.lab.transport.ordering.e9 import E9
from tidings.lab.transport.recovery.e10 import E10
from tidings.lab.transport.recovery.e11 import E11
from tidings.lab.transport.recovery.e12 import E12
from tidings.lab.transport.recovery.e13 import E13
from tidings.lab.transport.recovery.e14 import E14
from tidings.lab.transport.recovery.e15 import E15
from tidings.lab.transport.recovery.e16 import E16
from tidings.lab.transport.recovery.loss import LOSS

EXPERIMENTS = (
    *(E1, E2, E3, E4, E5, E6, E7, E8, E9),
    *(E10, E11, E12, E13, E14, E15, E16),
    *(E17, E18, E19, E20, E21, E22, E23, E24, E25),
    LOSS,
)
