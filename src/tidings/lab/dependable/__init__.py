"""Experiments on dependable publish/subscribe; the numbers are those of the specification (4.2 to 4.5)."""

from tidings.lab.dependable.e23 import E23
from tidings.lab.dependable.e24 import E24
from tidings.lab.dependable.e25 import E25

EXPERIMENTS = (E23, E24, E25)
