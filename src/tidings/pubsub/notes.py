"""What protocols write into a trace for whoever measures them: every kind of note there is.

A protocol knows things that no message shows: that it noticed a loss, that it refrained from asking, for how long an
event is held back. It says them with a note, an effect that nobody carries out and that costs next to nothing where
there is no trace. The metrics read them (`spark/metrics`), and both name the class, so a field that one side misspells
is found before anything runs. A test lists the kinds that nobody writes or nobody reads.

The row of a note has the name of its class in small letters (`LossDetected` is `loss_detected`), its fields `key` and
`size_bytes` in the columns of these names, and all others in its detail. Spans are seconds. A note is about one event
where it has a `key`, the one under which that event was published. Nothing here is written for each event that a
network carries: only for what is held back, lost, asked for or slowed down, for a subscription, or for a request.

To add one, see CONTRIBUTING.
"""

from tidings.machine.effects import Note, note_name

# Access: who may come in.


class VisitorTurnedAway(Note, frozen=True):
    """A broker does not let `node` in, or not any longer, for this reason. Its `principal` is known if its credentials
    were good, its `role` if it asked for one. Where it never proved its name, that is a claim, and `visitor` is what
    the broker called it."""

    node: str
    reason: str
    principal: str = ""
    role: str = ""
    visitor: str = ""


class VisitorAdmitted(Note, frozen=True):
    """A broker lets `node` in, in this `role`; `principal` answers for it."""

    node: str
    principal: str
    role: str


class RightsChanged(Note, frozen=True):
    """The `node` of this principal has other rights than before, these bounds now; it has to attach again."""

    node: str
    principal: str
    role: str
    publish: str
    subscribe: str


class RequestRefused(Note, frozen=True):
    """A client that is let in asks for what it may not have; `kind` is what it asked for, as in a receipt, or
    "inspect"."""

    node: str
    principal: str
    kind: str
    reason: str


class EntryRejected(Note, frozen=True):
    """The broker `node` does not let us in, for this reason; `visitor` as above."""

    node: str
    reason: str
    visitor: str = ""


class ClientLetGo(Note, frozen=True):
    """A broker that is drained ended the connection of this client, which had not gone in time; why, if it said so."""

    client: str
    reason: str


# Delivery: guarantees (PSDG).


class HistoryUnreadable(Note, frozen=True):
    """A broker that starts could not read what it had saved."""

    error: str


class NamesakeFound(Note, frozen=True):
    """A broker tells a `publisher` that it serves of `other`, which publishes under the same name at this `broker`."""

    publisher: str
    other: str
    broker: str


class ReceiptAsked(Note, frozen=True):
    """A client publishes its numbers `first` to `last` with one request and wants to hear when all have them. Until
    then, or until it is released, the publisher keeps them."""

    first: int
    last: int


class Acknowledged(Note, frozen=True):
    """The receipt came for what begins with `first`: the brokers of all who want it have it."""

    first: int


class Released(Note, frozen=True):
    """Nobody waits for the receipt of what begins with `first` any longer, though it did not come: it was refused, the
    link broke, or the client only waits for a fixed time."""

    first: int


class Promised(Note, frozen=True):
    """A client's subscription is in place. Nothing was to come for it before ("installed"), or nothing that was
    accepted before the time `since`, if the client gave one ("reference"). A client that named positions writes one
    more for each `publisher`: nothing below `number` was to come of it."""

    subscription: int
    guarantee: str
    since: float | None = None
    publisher: str | None = None
    number: int | None = None


class Twin(Note, frozen=True):
    """This subscription is to get what every other one of the `group` gets. Written by a client that subscribes as a
    member of a group, and by an experiment that lets clients subscribe alike."""

    subscription: int
    group: str


# Overlay and routing: links that change.


class LinkChanged(Note, frozen=True):
    """The node is an end of a link that goes or comes in this reconfiguration."""

    reconfiguration: str


class Misrouted(Note, frozen=True):
    """An event made a hop to where nobody wants it, because of this reconfiguration; written by an observer."""

    reconfiguration: str


class Reattached(Note, frozen=True):
    """A broker that lost the one above it is below another one: so many `seconds` later, by this `strategy`, and after
    so many `requests` to others."""

    seconds: float
    strategy: str
    requests: int


class RootElected(Note, frozen=True):
    """A broker found nobody to be below and is the root of a tree, the `roots`th in a row."""

    roots: int


class NeighbourSilent(Note, frozen=True):
    """A broker does not hear this `neighbour`, looks for it, and asks `bystanders` others that it hears."""

    neighbour: str
    bystanders: int


class NeighbourGone(Note, frozen=True):
    """A `neighbour` that was `silent_for` so many seconds is taken for gone: a broker finds nothing in its place, and
    so many others `confirmed` that."""

    neighbour: str
    silent_for: float
    confirmed: int


# Transport: order.


class Latched(Note, frozen=True):
    """An event is held back for `latch` seconds, so that those before it come first: it left `delta` seconds after the
    one before, delays are spread by `beta`, and `violation` is the probability that handing it over now is wrong."""

    key: str
    publisher: str
    number: int
    latch: float
    delta: float
    beta: float
    violation: float


class LossDetected(Note, frozen=True):
    """An event that is for us has not come in time."""

    key: str
    publisher: str
    number: int


# Transport: recovery.


class RepairRequested(Note, frozen=True):
    """A receiver asks others for an event, in this `round` of its attempts."""

    key: str
    round: int


class RepairSent(Note, frozen=True):
    """A request is answered with the event, to all who want it ("republish") or to who asks ("unicast")."""

    key: str
    way: str


class Suppressed(Note, frozen=True):
    """A request or a repair is put off or left out, since another has asked or answered."""

    key: str


class CacheSearched(Note, frozen=True):
    """Somebody who was asked looked for the event among the `size` that it keeps."""

    key: str
    hit: bool
    size: int


# Transport: congestion control.


class LossEvent(Note, frozen=True):
    """A receiver's loss `interval` ends, in events: the flow of `publisher` has the loss event rate `p` and may have
    `allowed` events a second; None is without a limit."""

    publisher: str
    interval: float
    p: float
    allowed: float | None


class RateAssessed(Note, frozen=True):
    """A receiver, once in a round trip: what comes of `publisher` may have the rate `allowed`, has `rate`, and its
    flows get these `quotas`, in events a second."""

    publisher: str
    allowed: float | None
    rate: float
    quotas: tuple[float | None, ...]


class FeedbackSent(Note, frozen=True):
    """A receiver reports so many `flows` to their publisher; with `release` it limits them no longer."""

    publisher: str
    flows: int
    release: bool


class Transmitted(Note, frozen=True):
    """A publisher lets an event of a limited flow go; `flow` is the one that limits it most."""

    flow: int


class Withheld(Note, frozen=True):
    """A publisher gives up an event since its queue is full: the `withheld`th."""

    withheld: int


class FlowChanged(Note, frozen=True):
    """The flow table of a publisher, now of this `size`: a row was added, updated or removed (`change`), for this
    `flow`, limited by the receiver `limiting` to `quota` events a second."""

    change: str
    flow: int
    limiting: int
    quota: float
    size: int


# Gossip: views of the membership.


class CycleEnded(Note, frozen=True):
    """A broker has done its maintenance number `cycle`, in which it turned to so many others (`messages`): a question
    and the view that follows it count once, as in the source."""

    cycle: int
    messages: int


class ViewCompared(Note, frozen=True):
    """Written by an observer: of the `optimal` members of the best view, `common` are in that of this broker."""

    cycle: int
    common: int
    optimal: int


# Popularity.


class Forwarded(Note, frozen=True):
    """A broker passes a publication on `via` "tree", "direct", "batch" or "gossip": so many copies (`links`), with so
    many clients of its own that match (`local`), for this `gain`."""

    via: str
    links: int
    local: int
    gain: float
    publisher: str


class GossipTaken(Note, frozen=True):
    """A broker takes a gossiped publication that so many of its clients match."""

    matches: int


class Queued(Note, frozen=True):
    """A broker must let a publication wait, in a queue of this `length`."""

    length: int


# Plans: changes of the topology.


class PlanMade(Note, frozen=True):
    """The planner has a plan: what building the model and solving it took, and how long the plan is."""

    model_seconds: float
    solve_seconds: float
    actions: int
    steps: int


class PlanExecuted(Note, frozen=True):
    """The coordinator has carried a plan out, in so many `seconds`."""

    seconds: float


class Shifted(Note, frozen=True):
    """A broker took part in a shift, with so many publications waiting before it and after it."""

    queue_before: int
    queue_after: int


# Feeds: trees over friends.


class RoundTripMeasured(Note, frozen=True):
    """A subscriber measured the way to `publisher` and back, in seconds."""

    publisher: str
    rtt: float


class PathMeasured(Note, frozen=True):
    """A subscriber's way from the publisher, as the sum of distances between coordinates, and the `direct` distance."""

    path: float
    direct: float


class CoverageCounted(Note, frozen=True):
    """A node reads so many `feeds`, of which friends of it read `covered` too."""

    feeds: int
    covered: int


class NeighboursCounted(Note, frozen=True):
    """The neighbours of a node, `distinct` ones, play so many `roles` for it: friend, parent, child."""

    roles: int
    distinct: int


# Collection: files from many sources at one sink.


class JobStarted(Note, frozen=True):
    """A sink asks for the files of the job `key`."""

    key: str


class BlockStored(Note, frozen=True):
    """A sink has stored a block that it lacked, of the job `key`."""

    key: str
    size_bytes: int


NOTES: dict[str, type[Note]] = {
    note_name(kind): kind for kind in list(globals().values()) if isinstance(kind, type) and kind.__base__ is Note
}
"""All of them by the name that a trace gives them."""
