"""How a broker that is going to be stopped comes to be a leaf of the tree, before it is.

The idea. Those below it are told, one after the other, to look for another broker (`FindAnother`), and do what they do
when they find a nearer one (`mover.py`): they are below the other one first, and leave then. Nobody searches and no
place stands open, as it would when the broker simply stopped. One at a time, because two who ask each other both wait.
It takes nobody below it meanwhile, but for those who find nobody else and insist. A root keeps the last one below it: a
leaf has one neighbour.

Who cannot leave stays, and is asked again in its turn. Timer. "drain", while it is drained.
"""

from tidings.machine.effects import CancelTimer, Effect, Send, SetTimer
from tidings.protocols.overlay.lstree.kinship import Kinship, TreeMode
from tidings.protocols.overlay.lstree.messages import FindAnother

ASKED_EACH = 0.25
"""Seconds from one who is asked to leave to the next one."""


class TreeDrain:
    def __init__(self, kin: Kinship) -> None:
        self.kin = kin
        self.turn = 0

    def change(self, now: float, is_on: bool) -> list[Effect]:
        self.kin.is_drained = is_on
        return self.go_on(now) if is_on else [CancelTimer("drain")]

    def go_on(self, now: float) -> list[Effect]:
        again = SetTimer("drain", now + ASKED_EACH)
        below = list(self.kin.below)[0 if self.kin.above is not None else 1 :]
        if not below or self.kin.mode is TreeMode.SEARCHING:
            return [again]
        self.turn += 1
        return [Send(below[self.turn % len(below)], FindAnother()), again]
