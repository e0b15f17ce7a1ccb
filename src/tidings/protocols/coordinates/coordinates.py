"""Coordinates: how far is everybody from everybody, without measuring each pair?

The problem. Whoever chooses near neighbours among thousands cannot measure the round trip to each of them.

The idea. Nodes have places in a space in which the distance between two is about the round trip (`vivaldi.py`). A few
*landmarks*, spread over the world, find their places by measuring each other. Whoever comes probes the landmarks for
some seconds, finds a place that fits what was measured, and keeps it: it is *fixed* until the session ends, so whatever
is built on it stands still. From then on a distance to anybody is arithmetic on two short tuples.

State. The own place (`Vivaldi`), the round under way and when each was sent, whether the place is fixed, and its
version, which grows with each session and each recalibration.

Messages. `CoordinateProbe(round)`, answered with `CoordinateEcho(round, place, error)`, by everybody: who is a
landmark is a matter of who is asked. As datagrams, since a stream would measure its own queue.

Timers. "round"; "fix", when the answers to the last round have had their time.

Tells `CoordinateFixed(place, version)`, once a session, and again after `Recalibrate`.

Guaranteed. A distance is symmetric, not negative, and obeys the triangle inequality, whatever was measured. A place is
fixed within `rounds * spacing + patience` seconds, also when no landmark answers (then at the origin, or where it was
before). Not guaranteed: that a distance is right. Real round trips do not obey the triangle inequality, and a landmark
that lies moves those who ask it, by a bounded part of what it says.

Source: peer-to-peer.md 3B.2 (P-24, P-25; F-13 for `Recalibrate`).
"""

from random import Random

from tidings.machine.effects import Drop, Effect, Send, SetTimer
from tidings.machine.inputs import Fired, Input, Received, Signal
from tidings.machine.message import Place
from tidings.model.errors import UsageError
from tidings.model.identity import NodeId
from tidings.protocols.coordinates.messages import CoordinateEcho, CoordinateProbe
from tidings.protocols.coordinates.params import CoordinateParams
from tidings.protocols.coordinates.vivaldi import Vivaldi
from tidings.pubsub.feeds import CoordinateFixed, Recalibrate

NOT_PROBED = "answers a probe that was never sent, or was answered"
NO_PLACE = "is no place in this space, or too far away"


class Coordinates:
    """`Coordinates("n7", landmarks, CoordinateParams(), rng)`; a landmark is one that is named among them."""

    messages: tuple[type, ...] = (CoordinateProbe, CoordinateEcho)
    hears: tuple[type, ...] = (Recalibrate,)
    tells: tuple[type[Signal], ...] = (CoordinateFixed,)

    def __init__(
        self, node_id: NodeId, landmarks: tuple[NodeId, ...], params: CoordinateParams, rng: Random, version: int = 0
    ) -> None:
        if len(landmarks) > params.nodes_max:
            raise UsageError(f"landmarks: {len(landmarks)} are more than nodes_max, {params.nodes_max}")
        self.node_id, self.params, self.rng = node_id, params, rng
        self.landmarks = tuple(it for it in dict.fromkeys(landmarks) if it != node_id)
        self.is_landmark = node_id in landmarks
        self.vivaldi = Vivaldi(params, rng)
        self.version = version
        """That of the last place that was fixed; a node that forgets everything is given one that is higher."""
        self.is_fixed = False
        self.round = 0
        self.sent: dict[tuple[NodeId, int], float] = {}
        """Probes that are not answered; those of the last rounds."""

    def start(self, now: float) -> list[Effect]:
        return self.begin(now)

    def begin(self, now: float) -> list[Effect]:
        self.is_fixed, self.round = False, 0
        self.sent.clear()
        if not self.landmarks:
            return [SetTimer("fix", now)]
        # Not all landmarks at once, nor all of a crowd that comes together.
        return [SetTimer("round", now + self.rng.uniform(0.0, self.params.spacing))]

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, CoordinateProbe(round)):
                vivaldi = self.vivaldi
                echo = CoordinateEcho(round, vivaldi.place, vivaldi.error)
                return [Send(sender, echo, self.params.transport)]
            case Received(sender, CoordinateEcho() as echo):
                return self.hear(now, sender, echo)
            case Fired("round"):
                return self.probe(now)
            case Fired("fix"):
                return self.fix()
            case Recalibrate() if self.is_fixed:
                return self.begin(now)
        return []

    def probe(self, now: float) -> list[Effect]:
        self.round += 1
        old = self.round - self.params.window
        self.sent = {key: at for key, at in self.sent.items() if key[1] > old}
        effects: list[Effect] = []
        for landmark in self.landmarks:
            self.sent[landmark, self.round] = now
            effects.append(Send(landmark, CoordinateProbe(self.round), self.params.transport))
        rounds = self.params.landmark_rounds if self.is_landmark else self.params.rounds
        if self.round < rounds:
            return [*effects, SetTimer("round", now + self.params.spacing)]
        return [*effects, SetTimer("fix", now + self.params.patience)]

    def hear(self, now: float, sender: NodeId, echo: CoordinateEcho) -> list[Effect]:
        sent_at = self.sent.pop((sender, echo.round), None)
        if sent_at is None or self.is_fixed:
            return [Drop(echo, NOT_PROBED)]
        if not self.vivaldi.observe(sender, now - sent_at, echo.place, echo.error):
            return [Drop(echo, NO_PLACE)]
        return []

    def fix(self) -> list[Effect]:
        self.is_fixed = True
        self.sent.clear()
        self.version += 1
        return [CoordinateFixed(self.place, self.version)]

    @property
    def place(self) -> Place:
        return self.vivaldi.place

    def check(self) -> None:
        assert len(self.place) == self.params.dimensions
        assert len(self.sent) <= len(self.landmarks) * self.params.window, "more probes are waited for than were sent"
        assert 0 <= self.vivaldi.error <= self.params.error_max
