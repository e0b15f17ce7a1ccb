"""Bulk transfers in pipes: those from one node to another go one behind the other, as on one connection.

`flows.py` gives every transfer a rate of its own, so ten small ones between two nodes take ten shares. Where they are
pieces of one stream that is wrong, and slow: rates are found again whenever a piece begins or ends. Here the pair of
nodes is the flow. Its rate changes only when some pipe runs dry or gets something again, and what happens at one
moment is settled together.

The rates are the same max-min fair ones, found with numpy: a link is full as soon as no flow across it could be held
back by another link first; all such links are settled at once, and the rest goes on (`Flows.share` is the plain twin).
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from tidings.sim.network.rule import check_positive

if TYPE_CHECKING:
    from tidings.sim.simulator import Simulator

LinkName = Any
FlowName = Any
PipeName = Any

ALMOST = 1e-9
"""Rounding: a transfer with less than this share of a bit left, or this share of a second, is over."""
UNLIMITED_BPS = 1e15
"""Of a pipe across no link at all."""


def fair_rates(capacities: Any, links: Any) -> Any:
    """Max-min fair rates of flows; row f of `links` names the links of flow f, filled up with the last one, which has
    no limit."""
    rates = numpy.full(len(links), UNLIMITED_BPS)
    left, nowhere = capacities.copy(), len(capacities) - 1
    rising = numpy.arange(len(links))
    while len(rising):
        across = links[rising]
        counts = numpy.bincount(across.ravel(), minlength=len(capacities))
        with numpy.errstate(divide="ignore", invalid="ignore"):
            levels = numpy.where(counts > 0, left / counts, numpy.inf)
        levels[nowhere] = numpy.inf
        most = levels[across].min(axis=1)
        least = numpy.full(len(capacities), numpy.inf)
        numpy.minimum.at(least, across.ravel(), numpy.repeat(most, across.shape[1]))
        is_full = (least >= levels * (1 - 1e-12)) & (counts > 0)
        is_full[nowhere] = False
        settled = is_full[across].any(axis=1)
        if not settled.any():
            break
        rates[rising[settled]] = most[settled]
        spent = numpy.repeat(most[settled], across.shape[1])
        left = numpy.maximum(left - numpy.bincount(across[settled].ravel(), spent, len(capacities)), 0.0)
        left[nowhere] = numpy.inf
        rising = rising[~settled]
    return rates


class PipedTransfers:
    """As `Transfers` (`flows.py`), with a `pipe` for each transfer."""

    def __init__(self, simulator: "Simulator", capacities_bps: Mapping[LinkName, float]) -> None:
        self.simulator = simulator
        self.numbers = {name: number for number, name in enumerate(capacities_bps)}
        self.capacities = numpy.array([*capacities_bps.values(), numpy.inf])
        self.pipes: dict[PipeName, int] = {}
        self.waiting: list[deque[FlowName]] = []
        self.links = numpy.zeros((0, 1), dtype=numpy.int64)
        self.remaining = numpy.zeros(0)
        self.rates = numpy.zeros(0)
        self.is_active = numpy.zeros(0, dtype=bool)
        self.sizes: dict[FlowName, float] = {}
        self.done: dict[FlowName, Callable[[float], object]] = {}
        self.pipe_of: dict[FlowName, int] = {}
        self.now = 0.0
        self.round = 0
        self.is_settling = self.is_stale = False

    def start(
        self,
        name: FlowName,
        path: Sequence[LinkName],
        size_bytes: float,
        done: Callable[[float], object],
        pipe: PipeName,
    ) -> None:
        number = self.pipes.get(pipe)
        if number is None:
            number = self.add_pipe(pipe, path)
        self.sizes[name], self.done[name], self.pipe_of[name] = size_bytes * 8, done, number
        self.waiting[number].append(name)
        if len(self.waiting[number]) == 1:
            self.advance()
            self.remaining[number] = size_bytes * 8
            self.is_active[number] = True
            self.changed()

    def add_pipe(self, pipe: PipeName, path: Sequence[LinkName]) -> int:
        number = self.pipes[pipe] = len(self.waiting)
        self.waiting.append(deque())
        wide = max(self.links.shape[1], len(path))
        nowhere = len(self.capacities) - 1
        links = numpy.full((number + 1, wide), nowhere, dtype=numpy.int64)
        links[:number, : self.links.shape[1]] = self.links
        links[number, : len(path)] = [self.numbers[link] for link in path]
        self.links = links
        self.remaining, self.rates = numpy.append(self.remaining, 0.0), numpy.append(self.rates, 0.0)
        self.is_active = numpy.append(self.is_active, False)
        return number

    def stop(self, name: FlowName) -> float:
        """Give a transfer up; how many bytes were left."""
        self.advance()
        number = self.pipe_of[name]
        waiting = self.waiting[number]
        if waiting[0] is not name and waiting[0] != name:
            waiting.remove(name)
            left = self.sizes[name]
        else:
            left = float(self.remaining[number])
            self.next_in(number)
            self.changed()
        self.forget(name)
        return left / 8

    def forget(self, name: FlowName) -> None:
        del self.sizes[name], self.done[name], self.pipe_of[name]

    def next_in(self, number: int) -> None:
        waiting = self.waiting[number]
        waiting.popleft()
        self.remaining[number] = self.sizes[waiting[0]] if waiting else 0.0
        if not waiting:
            self.is_active[number] = False
            self.is_stale = True

    def set_capacity(self, link: LinkName, capacity_bps: float) -> None:
        check_positive(f"capacity of {link!r}", capacity_bps)
        self.advance()
        self.capacities[self.numbers[link]] = capacity_bps
        self.changed()

    def advance(self) -> None:
        now = self.simulator.now
        if now > self.now:
            self.remaining -= numpy.where(self.is_active, self.rates * (now - self.now), 0.0)
            self.now = now

    def changed(self) -> None:
        """Rates are found again when all that happens at this moment has happened."""
        self.is_stale = True
        if not self.is_settling:
            self.is_settling = True
            self.simulator.push(self.simulator.now, self.settle, None)

    def settle(self, now: float, _: object) -> None:
        self.is_settling = False
        self.advance()
        if self.is_stale:
            active = numpy.flatnonzero(self.is_active)
            self.rates[:] = 0.0
            self.rates[active] = fair_rates(self.capacities, self.links[active])
            self.is_stale = False
        self.plan()

    def plan(self) -> None:
        self.round += 1
        active = numpy.flatnonzero(self.is_active & (self.rates > 0))
        if len(active):
            wait = float((self.remaining[active] / self.rates[active]).min())
            self.simulator.push(self.simulator.now + max(wait, 0.0), self.end, self.round)

    def end(self, now: float, planned_in: int) -> None:
        if planned_in != self.round:
            return
        self.advance()
        ended = []
        for number in numpy.flatnonzero(self.is_active & (self.remaining <= ALMOST * (1.0 + self.rates))):
            name = self.waiting[number][0]
            ended.append(self.done[name])
            self.next_in(int(number))
            self.forget(name)
        for done in ended:
            done(now)
        if self.is_stale:
            self.changed()
        elif not self.is_settling:
            self.plan()
