"""RP, reconfiguration path: one message walks from the old link to the new one and edits the tables on its way.

The idea. When a link is replaced by another, only the brokers on the path between the two have to change their tables:
from one end of the old link to the near end of the new one (the *head*), over the new link, and on to the other end of
the old link (the *tail*). So one end of the old link, that with the smaller name, sends `PathEdit` along the head. Each
broker on it takes the filters that came from where the lost link was for wanted by the next on the path instead
(`added`), and forgets of those which it has from behind what nobody but the next wants (`removed`). Nobody else is told
anything. The near end of the new link tells the far end what it wants, and passes the message on. The far end knows by
it what the near end takes it to want; it says what is not so, waits with everything else, and passes the message on
along the tail. The other end of the old link takes back what the lost neighbour wanted, and sends `Flush` back. When
that is at the far end of the new link, old routes are gone, and whatever else is wanted there is told.

What is said meanwhile. A broker on the head takes something for wanted by the next before the next knows. If the next
has just taken the same thing back, that was said too early and must not count: until `PathEdited` comes from it such
removals are not believed. What the next says behind `PathEdited` counts as always.

The silent edits are made at both ends of a link: a broker edits what it has heard, and what it has told (`links.py`,
`take_as_told`, `take_as_removed`). If it has to tell something else than the edits say, because somebody subscribes
meanwhile, covering hides a filter, or it does not pass the message on, it tells the difference. So the tables are right
whether or not the message arrives.

One at a time. While a broker waits for an answer it does not pass on the message of another reconfiguration: it says
so in `PathEdited`, and the two ends of that old link wait as in TDU (`timed.py`), those of the new link as if they had
heard nothing, `subscribe_after` seconds. The same where a message would be too large, or the path is not as it says.

A liar can have a neighbour take it for wanting something, which is only its own harm; or end the waiting at an end of a
link. The path is followed only from neighbour to neighbour, and crosses a new link only under its own name.

State. `asked`: of whom `PathEdited` is awaited, with what is not believed of him. `crossing`: what goes over the new
link behind the filters. `entered`: the near ends that we, as far ends, owe the rest. `backward`: whom `Flush` goes back
to. Messages: `PathEdit`, `PathEdited`, `Flush`. Timers: ("unsubscribe", ghost), ("subscribe", neighbour,
reconfiguration).

Source: dynamic-topologies.md 3.7 (its source's 6.3, figure 6.5).
"""

from typing import ClassVar

from msgspec.structs import replace

from tidings.machine.effects import CancelTimer, Drop, Effect, Send
from tidings.machine.message import Message
from tidings.model.bounds import FLUSHES_REMEMBERED_MAX, PATH_FILTERS_BYTES_MAX, PATH_FILTERS_MAX
from tidings.model.filter import Filter
from tidings.model.identity import NodeId
from tidings.protocols.routing.links import NeighbourLink
from tidings.protocols.routing.repairs.messages import Flush, PathEdit, PathEdited
from tidings.protocols.routing.repairs.restraint import WithholdingRepair, timer_of
from tidings.protocols.routing.state import NO_NEIGHBOUR
from tidings.protocols.routing.subscriptions import RoutingSubscriptions
from tidings.protocols.routing.tables import Ghost
from tidings.pubsub.signals import Level, NeighbourReplaced, ReconfigurationId

NOT_ON_THE_PATH = "did not come along its path"
NOT_ASKED = "answers what was not asked"
TOO_LARGE = "more filters than a message along a path may carry"
OTHER_CHANGE = "another reconfiguration is on its way here"


class PathRepair(WithholdingRepair):
    needs: ClassVar[Level] = Level.PATHS
    messages: ClassVar[tuple[type[Message], ...]] = (PathEdit, PathEdited, Flush)

    def __init__(self, subscriptions: RoutingSubscriptions) -> None:
        super().__init__(subscriptions)
        self.asked: dict[NodeId, tuple[ReconfigurationId, frozenset[str]]] = {}
        self.crossing: dict[NodeId, PathEdit] = {}
        self.entered: dict[NodeId, ReconfigurationId] = {}
        self.backward: dict[ReconfigurationId, NodeId] = {}

    # What happens to links.

    def lost(self, now: float, ghost: Ghost, effects: list[Effect]) -> None:
        for state in (self.asked, self.crossing, self.entered):
            state.pop(ghost.lost, None)
        # Also where no neighbour is left: what it wanted goes along the path.
        self.defer(now, ghost, effects)

    def up(self, now: float, link: NeighbourLink) -> list[Effect]:
        if not link.reconfiguration:
            return []
        link.is_withheld = True
        link.holds_back = lambda text: True
        return [self.begin_wait(now, link)]

    def told(self, now: float, link: NeighbourLink) -> list[Effect]:
        """What goes over the new link comes behind the filters."""
        edit = self.crossing.pop(link.neighbour, None)
        if edit is None or edit.reconfiguration != link.reconfiguration:
            return []
        return [Send(link.neighbour, replace(edit, removed=()))]

    def replaced(self, now: float, replaced: NeighbourReplaced) -> list[Effect]:
        path = replaced.path
        if not path or path[0] != self.node_id or self.node_id > replaced.lost or replaced.near not in path:
            return []
        ghost = Ghost(replaced.lost, replaced.reconfiguration)
        texts = tuple(self.subscriptions.tables.haunted(ghost))
        edit = PathEdit(replaced.reconfiguration, path, path.index(replaced.near), texts, texts)
        if len(texts) > PATH_FILTERS_MAX or sum(len(text.encode()) for text in texts) > PATH_FILTERS_BYTES_MAX:
            return [Drop(replace(edit, added=(), removed=()), TOO_LARGE)]
        problem = self.problem_of(edit, 0)
        if problem:
            return [Drop(edit, problem)]
        filters = {text: self.subscriptions.tables.filters[text] for text in texts}
        effects: list[Effect] = [CancelTimer(("unsubscribe", ghost))]
        if ghost in self.subscriptions.tables.ghosts:
            self.subscriptions.departures.forget(ghost)
        self.pass_on(now, edit, 0, filters, effects)
        self.subscriptions.state.tables_changed()
        self.subscriptions.reconcile(now, texts, effects)
        return effects

    # Along the path.

    def receive(self, now: float, sender: NodeId, message: Message) -> list[Effect]:
        if not self.is_heard(sender) or self.subscriptions.links[sender].reduction is None:
            return [Drop(message, NO_NEIGHBOUR)]
        link = self.subscriptions.links[sender]
        match message:
            case PathEdit(path=path):
                place = path.index(self.node_id) if self.node_id in path else 0
                if not place or path[place - 1] != sender or len({*path}) < len(path):
                    return self.edit(now, link, message, place=-1)
                is_head = place <= message.near
                return self.edit(now, link, message, place) if is_head else self.close(now, link, message, place)
            case PathEdited(reconfiguration):
                if self.asked.get(sender, ("",))[0] != reconfiguration:
                    return [Drop(message, NOT_ASKED)]
                del self.asked[sender]
                link.disbelieves = None
                return []
        return super().receive(now, sender, message)

    def edit(self, now: float, link: NeighbourLink, edit: PathEdit, place: int) -> list[Effect]:
        """On the head, or nowhere on the path: what the sender takes for told is set right whatever becomes of it."""
        effects: list[Effect] = []
        tables = self.subscriptions.tables
        filters = self.read_all(edit.added)
        for text in edit.removed:
            tables.remove_wanted(link.neighbour, text)
        problem = NOT_ON_THE_PATH if place < 0 else self.problem_of(edit, place)
        link.flow.put_through(PathEdited(edit.reconfiguration, bool(problem)))
        if problem:
            effects.append(Drop(edit, problem))
        else:
            self.pass_on(now, edit, place, filters, effects)
        self.subscriptions.state.tables_changed()
        self.take_as_told(now, link, edit.added, effects)
        self.subscriptions.reconcile(now, dict.fromkeys((*edit.added, *edit.removed)), effects)
        return effects

    def problem_of(self, edit: PathEdit, place: int) -> str:
        """Why it cannot be passed on from there; empty if it can."""
        if self.asked or self.crossing:
            return OTHER_CHANGE
        link = self.subscriptions.links.get(edit.path[place + 1]) if place + 1 < len(edit.path) else None
        if link is None or link.reduction is None or not link.is_heard:
            return NOT_ON_THE_PATH
        if place == edit.near and (link.reconfiguration != edit.reconfiguration or not link.is_withheld):
            return NOT_ON_THE_PATH
        is_room = len(self.subscriptions.tables.texts[link.neighbour]) + len(edit.added) <= self.params.filters_max
        return "" if is_room else TOO_LARGE

    def pass_on(
        self, now: float, edit: PathEdit, place: int, filters: dict[str, Filter], effects: list[Effect]
    ) -> None:
        """To the next on the path, which is taken to want what is added from now on."""
        tables, link = self.subscriptions.tables, self.subscriptions.links[edit.path[place + 1]]
        if place == edit.near:
            self.crossing[link.neighbour] = edit
            link.is_withheld, link.holds_back = False, None
            effects.append(CancelTimer(timer_of(link)))
            self.subscriptions.walk_on(now, link, effects)
        else:
            alone = [text for text in edit.removed if not tables.keeps_beside(text, link.neighbour)]
            gone = link.take_as_removed(now, alone, effects)
            link.flow.put_through(replace(edit, added=tuple(filters), removed=tuple(gone)))
            self.asked[link.neighbour] = edit.reconfiguration, frozenset(filters)
            link.disbelieves = frozenset(filters).__contains__
        for text, filter in filters.items():
            tables.add_wanted(link.neighbour, text, filter)

    def close(self, now: float, link: NeighbourLink, edit: PathEdit, place: int) -> list[Effect]:
        """On the tail."""
        effects: list[Effect] = []
        if place == edit.near + 1:
            effects += self.enter(now, link, edit)
        else:
            self.take_as_told(now, link, edit.added, effects)
        if place + 1 == len(edit.path):
            self.settle_all(now, edit.reconfiguration, effects)
            if not self.stop(now, edit.reconfiguration, effects):
                effects += self.flush_back(Flush(edit.reconfiguration, self.node_id), link.neighbour)
            return effects
        following = self.subscriptions.links.get(edit.path[place + 1])
        if following is None or following.reduction is None:
            return [*effects, Drop(edit, NOT_ON_THE_PATH)]
        self.backward[edit.reconfiguration] = link.neighbour
        if len(self.backward) > FLUSHES_REMEMBERED_MAX:
            del self.backward[next(iter(self.backward))]
        return [*effects, Send(following.neighbour, replace(edit, added=(), removed=()))]

    def enter(self, now: float, link: NeighbourLink, edit: PathEdit) -> list[Effect]:
        """At the far end of the new link. What is not added is told when old routes are gone."""
        effects: list[Effect] = []
        if link.reconfiguration != edit.reconfiguration or not link.is_withheld:
            # What we told before this came may have crossed it: all of it is said aloud.
            link.say_again(now, edit.added, effects)
            return effects
        added = frozenset(edit.added)
        self.entered[link.neighbour] = edit.reconfiguration
        link.holds_back = lambda text: text not in added
        self.take_as_told(now, link, edit.added, effects)
        link.is_withheld = False
        effects.append(self.begin_wait(now, link))
        self.subscriptions.walk_on(now, link, effects)
        return effects

    def flush_back(self, flush: Flush, sender: NodeId) -> list[Effect]:
        if self.params.flush == "path":
            return [Send(sender, flush)]
        self.remember(flush)
        return [Send(link.neighbour, flush) for link in self.open_links()]

    def flushed(self, now: float, sender: NodeId, flush: Flush) -> list[Effect]:
        if self.params.flush == "path" and flush.reconfiguration not in self.entered.values():
            before = self.backward.pop(flush.reconfiguration, None)
            return [Send(before, flush)] if before in self.subscriptions.links else [Drop(flush, NOT_ON_THE_PATH)]
        return super().flushed(now, sender, flush)

    def stop(self, now: float, reconfiguration: ReconfigurationId, effects: list[Effect]) -> bool:
        """At the far end of the new link the rest is told."""
        waiting = [neighbour for neighbour, name in self.entered.items() if name == reconfiguration]
        for neighbour in waiting:
            link = self.subscriptions.links[neighbour]
            effects.append(CancelTimer(timer_of(link)))
            self.let_go(now, link, effects)
        return bool(waiting)

    def settle_all(self, now: float, reconfiguration: ReconfigurationId, effects: list[Effect]) -> None:
        ghosts = self.subscriptions.tables.ghosts
        self.settle(now, [ghost for ghost in ghosts if ghost.reconfiguration == reconfiguration], effects)

    def let_go(self, now: float, link: NeighbourLink, effects: list[Effect]) -> None:
        self.entered.pop(link.neighbour, None)
        super().let_go(now, link, effects)

    # Tables.

    def read_all(self, texts: tuple[str, ...]) -> dict[str, Filter]:
        """Those that can be read, by canonical text."""
        return dict(read for text in texts if (read := self.subscriptions.state.read(text)) is not None)

    def due(self, link: NeighbourLink, texts: tuple[str, ...]) -> dict[str, Filter]:
        tables, concerns = self.subscriptions.tables, self.subscriptions.state.strategy.concerns
        return {
            text: tables.filters[text]
            for text in texts
            if self.subscriptions.is_due(link, text) and concerns(link.neighbour, text, tables.filters[text])
        }

    def take_as_told(self, now: float, link: NeighbourLink, texts: tuple[str, ...], effects: list[Effect]) -> None:
        link.take_as_told(now, self.due(link, texts), texts, effects)

    def check(self) -> None:
        super().check()
        links = self.subscriptions.links
        assert len(self.backward) <= FLUSHES_REMEMBERED_MAX
        assert self.asked.keys() | self.crossing.keys() | self.entered.keys() <= links.keys()
        assert all((link.disbelieves is not None) == (name in self.asked) for name, link in links.items())
