"""Latency that drifts: slow enough that two packets sent one right after the other take equally long.

Routes and load on the internet change over seconds, not from packet to packet. `Wandering` adds to each direction of
each link an offset between -spread and +spread. It is drawn anew every `period` seconds and goes there in a straight
line. A period is longer than the offset can change in it, so no packet overtakes another.

    Wandering(Constant(0.05), spread=0.005, period=10.0)           # 50 ms, give or take 5
"""

from tidings.machine.effects import Transport
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.sim.network.rule import Fates, Rule, Wrapper, later


class Wandering(Wrapper):
    def __init__(self, inner: Rule, spread: float, period: float) -> None:
        super().__init__(inner)
        if spread < 0:
            raise UsageError(f"spread: {spread} is no span of time; give seconds from 0")
        if not period > 2 * spread:
            raise UsageError(f"period: {period} is too short for a spread of {spread}; give more than {2 * spread}")
        self.spread, self.period = spread, period
        self.ways: dict[tuple[NodeId, NodeId], list[float]] = {}
        """The offsets of a direction at 0, 1, 2, ... periods, as far as they were needed."""

    def fate(self, now: float, sender: NodeId, to: NodeId, size_bytes: int, transport: Transport) -> Fates:
        inner = self.inner.fate(now, sender, to, size_bytes, transport)
        # A latency shorter than the offset must not become a journey back in time.
        return later(inner, max(self.offset(now, sender, to), -min(inner, default=0.0)))

    def offset(self, now: float, sender: NodeId, to: NodeId) -> float:
        offsets = self.ways.setdefault((sender, to), [])
        place, part = divmod(now / self.period, 1.0)
        draws = self.draws(f"{sender}\x1f{to}")
        while len(offsets) <= place + 1:
            offsets.append(self.spread * (2 * draws.random() - 1))
        before, after = offsets[int(place)], offsets[int(place) + 1]
        return before + (after - before) * part
