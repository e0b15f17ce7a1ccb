"""What may be done to an overlay, each operation by what it needs, adds and deletes.

A state of the network is a set of propositions (Salehi thesis 6.1; spec dependable.md 3.5.1):

    Present(i)      broker i is part of the overlay (eq(i,i) in the source)
    Connected(i,j)  there is a link between i and j
    Removable(i,j)  that link may go: it is there, and the goal does not have it

An operation is a function from the brokers that take part to its effects. Planner and checker read nothing else of it,
so one more operation is one more line in `OPERATIONS`. Each of those here turns a tree into a tree:

    append(i, j)      new broker i becomes a leaf at j
    detach(i, j)      leaf i goes; its link to j is removable
    shift(i, j, k)    link i-j becomes i-k, where k is a neighbour of j: the smallest change, three brokers take part
    swap(i, j, k)     the same as shift, by another protocol with other guarantees; a cost of its own tells them apart
    move(i, j, .., k) link i-j becomes i-k, where k is anywhere on j's side, along a path of links that stay
    exchange(a, .., b) a link of the path from a to b goes (which one, `place` says), and a-b comes

`shift` is `move` with one link on the way, and `move` is `exchange` of the first link of the path. The larger ones take
the place of several shifts, and bind more brokers while they last: which is better is a question of cost.

Why a path must stay as it is: whoever takes part hands tables over along it.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise

import msgspec

from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.planning.tree import Link, OverlayTree, link, neighbours_of


class Present(msgspec.Struct, frozen=True, tag=True):
    broker: NodeId


class Connected(msgspec.Struct, frozen=True, tag=True):
    link: Link


class Removable(msgspec.Struct, frozen=True, tag=True):
    link: Link


Proposition = Present | Connected | Removable
OverlayState = frozenset[Proposition]
Goal = frozenset[Link]


class Action(msgspec.Struct, frozen=True, order=True):
    """An operation with its brokers; that is all that a plan says, and the rest follows."""

    operation: str
    brokers: tuple[NodeId, ...]
    place: int = 0
    """Of an exchange: which link of the path goes, 0 being the first."""

    def __str__(self) -> str:
        where = f"; {self.place}" if self.operation == EXCHANGE else ""
        return f"{self.operation}({', '.join(self.brokers)}{where})"


class Effects(msgspec.Struct, frozen=True, kw_only=True):
    needs: tuple[Proposition, ...]
    lacks: tuple[Proposition, ...] = ()
    """Must not hold."""
    adds: tuple[Proposition, ...] = ()
    deletes: tuple[Proposition, ...] = ()
    leaf: NodeId | None = None
    """Must have no link but the one that goes: said of links, this would need a line for each broker that there is."""


class Operation(msgspec.Struct, frozen=True):
    name: str
    effects: Callable[[Action, Goal], Effects]
    brokers_min: int
    brokers_max: int | None
    """None: a path of any length."""


APPEND, DETACH, SHIFT, SWAP, MOVE, EXCHANGE = "append", "detach", "shift", "swap", "move", "exchange"


def appending(action: Action, goal: Goal) -> Effects:
    i, j = action.brokers
    joined = link(i, j)
    return Effects(
        needs=(Present(j),),
        lacks=(Present(i), Connected(joined)),
        adds=(Present(i), *linked(joined, goal)),
    )


def detaching(action: Action, goal: Goal) -> Effects:
    i, j = action.brokers
    gone = link(i, j)
    return Effects(
        needs=(Present(i), Connected(gone), Removable(gone)),
        deletes=(Present(i), Connected(gone), Removable(gone)),
        leaf=i,
    )


def moving(action: Action, goal: Goal) -> Effects:
    """The first link of the path goes, and its first broker is linked with the last."""
    return replacing(action.brokers, 0, goal)


def exchanging(action: Action, goal: Goal) -> Effects:
    return replacing(action.brokers, action.place, goal)


def replacing(path: tuple[NodeId, ...], place: int, goal: Goal) -> Effects:
    on_path = [link(a, b) for a, b in pairwise(path)]
    if not 0 <= place < len(on_path):
        raise UsageError(f"place {place}: a path of {len(path)} brokers has the links 0 to {len(on_path) - 1}")
    gone = on_path[place]
    return Effects(
        needs=(Removable(gone), *map(Connected, on_path)),
        adds=linked(link(path[0], path[-1]), goal),
        deletes=(Connected(gone), Removable(gone)),
    )


def linked(joined: Link, goal: Goal) -> tuple[Proposition, ...]:
    """A new link is removable unless it is where it is to be."""
    return (Connected(joined),) if joined in goal else (Connected(joined), Removable(joined))


OPERATIONS: dict[str, Operation] = {
    APPEND: Operation(APPEND, appending, 2, 2),
    DETACH: Operation(DETACH, detaching, 2, 2),
    SHIFT: Operation(SHIFT, moving, 3, 3),
    SWAP: Operation(SWAP, moving, 3, 3),
    MOVE: Operation(MOVE, moving, 3, None),
    EXCHANGE: Operation(EXCHANGE, exchanging, 3, None),
}


def effects_of(action: Action, goal: Goal, operations: Mapping[str, Operation] = OPERATIONS) -> Effects:
    operation = operations.get(action.operation)
    if operation is None:
        raise UsageError(f"{action}: there is no operation {action.operation!r}; there are {', '.join(operations)}")
    count, most = len(action.brokers), operation.brokers_max
    if count < operation.brokers_min or (most is not None and count > most) or len(set(action.brokers)) < count:
        wanted = operation.brokers_min if most == operation.brokers_min else f"at least {operation.brokers_min}"
        raise UsageError(f"{action}: {action.operation} is of {wanted} different brokers")
    return operation.effects(action, goal)


def shift(i: NodeId, j: NodeId, k: NodeId) -> Action:
    return Action(SHIFT, (i, j, k))


def state_of(tree: OverlayTree, goal: Goal) -> OverlayState:
    """What holds in this tree on the way to that goal."""
    return frozenset(
        (
            *map(Present, tree.brokers),
            *map(Connected, tree.links),
            *(Removable(each) for each in tree.links if each not in goal),
        )
    )


def links_in(state: OverlayState) -> frozenset[Link]:
    return frozenset(each.link for each in state if isinstance(each, Connected))


def applies(effects: Effects, state: OverlayState) -> bool:
    if not state.issuperset(effects.needs) or not state.isdisjoint(effects.lacks):
        return False
    return effects.leaf is None or len(neighbours_of(links_in(state)).get(effects.leaf, ())) == 1


def apply(effects: Effects, state: OverlayState) -> OverlayState:
    assert applies(effects, state), f"{effects} in a state in which it cannot be done"
    return state.difference(effects.deletes).union(effects.adds)
