"""The shim: headers on, headers off, each event once."""

from random import Random

import pytest

from tidings.machine.effects import Deliver, Drop, Effect, SetTimer
from tidings.machine.inputs import Fired
from tidings.model.language.parser import parse
from tidings.protocols.transport.headers import DIGEST, WRAP, Data, decode_data, encode_data
from tidings.protocols.transport.marks import OF, TO, Kind, head_of, mark
from tidings.protocols.transport.messages import (
    EchoReply,
    EchoRequest,
    Feedback,
    LossRepair,
    LossRequest,
    encode_control,
)
from tidings.protocols.transport.params import OrderingParams, TransportParams
from tidings.protocols.transport.sequences import SAME_ID_MAX
from tidings.protocols.transport.shim import BAD_EVENT, BAD_HEADER, NOT_ASKED, OWN, REPEATED, TOO_MANY_STREAMS, Shim
from tidings.protocols.transport.signals import (
    Admitted,
    CarriedEvent,
    Caught,
    Configure,
    Departed,
    DigestHeard,
    Emit,
    Handed,
    Heard,
    Leaving,
    Listen,
    PublishEvent,
    Recovered,
    StopListening,
    StreamGone,
    Told,
    Unwatch,
    Watch,
)
from tidings.pubsub.publications import encode_head

HEAD = encode_head({"price": 5, "symbol": "AMD"})
PAYLOAD = b"\x00payload"
OURS, THEIRS, OTHER = 1, 2, 3


def shim_of(**params: object) -> Shim:
    return Shim(OURS, TransportParams(**params), Random(1))  # type: ignore[arg-type]


def listening(**params: object) -> Shim:
    shim = shim_of(**params)
    shim.handle(0.0, Listen(11, parse("price > 0")))
    return shim


def leave(shim: Shim, now: float = 1.0, head: bytes = HEAD, payload: bytes = PAYLOAD) -> list[Effect]:
    (outgoing,) = shim.handle(now, PublishEvent(head, payload, "ticket"))
    assert isinstance(outgoing, Leaving)
    return shim.handle(now, Admitted(outgoing))


def event(sequence: int, publisher: int = THEIRS, source: str = "s", subscriptions: tuple[int, ...] = (11,)) -> Caught:
    sent = encode_data(Data(publisher, sequence, 1.0)) + PAYLOAD
    return Caught(CarriedEvent(mark(HEAD, Kind.DATA), sent, source, 0, 0.0, subscriptions))


def heard_numbers(effects: list[Effect]) -> list[int]:
    return [effect.sequence for effect in effects if isinstance(effect, Heard)]


def drops(effects: list[Effect]) -> list[str]:
    return [effect.reason for effect in effects if isinstance(effect, Drop)]


@pytest.mark.spec("T-16")
def test_what_was_published_is_what_is_heard_byte_for_byte() -> None:
    (emitted,) = leave(shim_of())
    assert emitted.payload != PAYLOAD
    (heard,) = [
        effect
        for effect in listening().handle(2.0, Caught(CarriedEvent(emitted.head, emitted.payload, subscriptions=(11,))))
        if isinstance(effect, Heard)
    ]
    assert (heard.content.head, heard.content.payload) == (HEAD, PAYLOAD)


@pytest.mark.spec("T-16")
def test_a_subscription_that_wants_no_order_gets_the_event_at_once_without_header() -> None:
    shim = listening()
    (effect,) = shim.handle(1.0, event(0, subscriptions=(12,)))
    assert effect == Deliver(Handed(CarriedEvent(HEAD, PAYLOAD, "s", subscriptions=(12,)), ("", 0), 0))
    both = shim.handle(1.0, event(0, subscriptions=(11, 12)))
    assert [effect.item.content.subscriptions for effect in both if isinstance(effect, Deliver)] == [(12,)]
    assert [effect.content.subscriptions for effect in both if isinstance(effect, Heard)] == [(11,)]


@pytest.mark.spec("T-17")
def test_with_ordering_off_what_leaves_is_what_was_given() -> None:
    assert shim_of(is_ordered=False).handle(1.0, PublishEvent(HEAD, PAYLOAD, "ticket")) == [
        Emit(HEAD, PAYLOAD, Kind.DATA, "ticket")
    ]


@pytest.mark.spec("T-17")
def test_events_without_a_mark_pass_as_they_are() -> None:
    content = CarriedEvent(HEAD, PAYLOAD, "s", subscriptions=(11,))
    assert listening().handle(1.0, Caught(content)) == [Deliver(Handed(content, ("", 0), 0))]


@pytest.mark.spec("T-21")
def test_numbers_are_given_when_events_leave_not_when_they_are_published() -> None:
    shim = shim_of()
    (first,) = shim.handle(0.0, PublishEvent(HEAD, b"first"))
    (second,) = shim.handle(0.0, PublishEvent(HEAD, b"second"))
    numbers = []
    for outgoing in (second, first):
        assert isinstance(outgoing, Leaving)
        (emitted,) = shim.handle(1.0, Admitted(outgoing))
        header, payload = decode_data(emitted.payload)
        numbers.append((payload, header.sequence, header.departed))
    assert numbers == [(b"second", 0, 1.0), (b"first", 1, 1.0)]


def test_what_is_no_event_is_not_sent() -> None:
    assert drops(shim_of().handle(0.0, PublishEvent(b"\x93", b""))) == [BAD_EVENT]


def test_messages_of_the_other_parts_leave_as_they_are() -> None:
    outgoing = Leaving(Kind.FEEDBACK, b"head", b"payload")
    assert shim_of().handle(0.0, Admitted(outgoing)) == [Emit(b"head", b"payload", Kind.FEEDBACK)]


@pytest.mark.spec("T-39")
def test_an_event_that_comes_again_is_dropped() -> None:
    shim = listening()
    numbers, reasons = [], []
    for sequence in (5, 6, 5, 8, 6, 7, 8, 4, 4):
        effects = shim.handle(1.0, event(sequence))
        numbers += heard_numbers(effects)
        reasons += drops(effects)
    assert numbers == [5, 6, 8, 7, 4]
    assert reasons == [REPEATED] * 4


def test_numbers_that_wrap_around_are_whole_for_the_other_parts() -> None:
    shim = listening()
    numbers = []
    for sequence in (WRAP - 2, WRAP - 1, 1, 0, WRAP - 1):
        numbers += heard_numbers(shim.handle(1.0, event(sequence)))
    assert numbers == [WRAP - 2, WRAP - 1, WRAP + 1, WRAP]


def test_publishers_are_told_apart_by_source_and_id() -> None:
    shim = listening()
    streams = [("s", THEIRS), ("t", THEIRS), ("s", OTHER)]
    for source, publisher in streams:
        assert heard_numbers(shim.handle(1.0, event(3, publisher, source))) == [3]
    assert list(shim.streams.all) == streams
    shim.check()


def test_what_was_recovered_is_not_heard_again() -> None:
    shim = listening()
    shim.handle(1.0, event(5))
    shim.handle(1.0, event(7))
    shim.handle(1.0, Recovered(("s", THEIRS), 6, CarriedEvent(HEAD, PAYLOAD), "repaired"))
    assert drops(shim.handle(1.0, event(6))) == [REPEATED]


def repair_of(sequence: int) -> Caught:
    repair = LossRepair(OTHER, 1.0, 0, 0.0, 0.0, Data(THEIRS, sequence, 1.0))
    return Caught(CarriedEvent(mark(HEAD, Kind.REPAIR), encode_control(repair, PAYLOAD), "s2", 0, 0.0, (11,)))


def test_a_repair_says_whether_its_event_is_new_here() -> None:
    shim = listening()
    for sequence in (5, 7):
        shim.handle(1.0, event(sequence))
    told = [shim.handle(1.0, repair_of(sequence))[0] for sequence in (6, 7, 4)]
    assert [(one.stream, one.sequence, one.is_new) for one in told if isinstance(one, Told)] == [
        (("s", THEIRS), 6, True),
        (("s", THEIRS), 7, False),
        (("s", THEIRS), 4, False),
    ]


def test_a_request_for_our_own_event_has_its_whole_number() -> None:
    shim = shim_of()
    shim.publishing.next = WRAP + 5
    head = head_of({OF: OURS}, Kind.REQUEST)
    request = LossRequest(THEIRS, OURS, 2, 1.0, 0.1, 0.1, 1, 16)
    (told,) = shim.handle(1.0, Caught(CarriedEvent(head, encode_control(request))))
    assert (told.stream, told.sequence) == (None, WRAP + 2)


def test_our_own_messages_are_dropped() -> None:
    shim = shim_of()
    feedback = encode_control(Feedback(OURS, THEIRS, 1.0, 0.1, (), 16))
    reply = encode_control(EchoReply(THEIRS, OURS, 1, 1.0, 0.0, 1.0))
    for kind, payload in ((Kind.FEEDBACK, feedback), (Kind.ECHO_REPLY, reply)):
        assert drops(shim.handle(1.0, Caught(CarriedEvent(head_of({TO: 9}, kind), payload)))) == [OWN]


@pytest.mark.spec("T-22")
def test_a_mark_that_does_not_fit_its_message_is_refused() -> None:
    shim = listening()
    data, digest = encode_data(Data(THEIRS, 1, 1.0)), encode_data(Data(THEIRS, 1, 1.0, kind=DIGEST))
    echo = encode_control(EchoRequest(THEIRS, OURS, 1, 1.0))
    for kind, payload in ((Kind.DATA, digest), (Kind.DIGEST, data), (Kind.FEEDBACK, echo), (Kind.DATA, echo)):
        content = CarriedEvent(mark(HEAD, kind), payload, subscriptions=(11,))
        assert drops(shim.handle(1.0, Caught(content))) == [BAD_HEADER]


def test_what_nobody_asked_for_is_dropped() -> None:
    shim = listening()
    plain, digest = CarriedEvent(HEAD, PAYLOAD), encode_data(Data(THEIRS, 1, 1.0, kind=DIGEST))
    strange = CarriedEvent(mark(HEAD, Kind.DIGEST), digest)
    for caught in (Caught(plain), event(0, subscriptions=()), Caught(strange)):
        assert drops(shim.handle(1.0, caught)) == [NOT_ASKED]


def test_no_more_streams_are_followed_than_allowed() -> None:
    shim = listening(streams_max=3)
    for number, publisher in enumerate((10, 11, 12)):
        shim.handle(float(number), event(0, publisher))
    shim.handle(5.0, event(1, 10))
    effects = shim.handle(6.0, event(0, 13))
    assert drops(effects) == [TOO_MANY_STREAMS]
    assert StreamGone(("s", 11)) in effects
    assert sorted(publisher for _, publisher in shim.streams.all) == [10, 12, 13]
    shim.check()


def test_a_stranger_cannot_pile_up_streams_under_the_id_of_another() -> None:
    shim = listening()
    for number in range(3 * SAME_ID_MAX):
        shim.handle(float(number), event(0, THEIRS, f"source {number}"))
        shim.check()
    assert len(shim.streams.all) == SAME_ID_MAX


def test_a_stream_that_falls_silent_is_forgotten() -> None:
    shim = listening(session_timeout=60.0)
    timer = [effect for effect in shim.handle(1.0, event(0)) if isinstance(effect, SetTimer)]
    assert timer == [SetTimer("expiry", 61.0)]
    shim.handle(30.0, event(1))
    assert shim.handle(61.0, Fired("expiry")) == [SetTimer("expiry", 121.0)]
    assert shim.handle(121.0, Fired("expiry")) == [StreamGone(("s", THEIRS))]
    assert heard_numbers(shim.handle(130.0, event(1))) == [1]


def test_digests_are_asked_for_while_a_subscription_is_reliable() -> None:
    shim = listening()
    shim.handle(1.0, event(0))
    key = ("digests", ("s", THEIRS))
    asked = Watch(key, f"tidings_transport = 'digest' AND tidings_of = {THEIRS}")
    assert shim.handle(2.0, Listen(12, parse("price > 1"), is_reliable=True)) == [asked]
    effects = shim.handle(2.0, event(0, OTHER))
    assert [effect.key for effect in effects if isinstance(effect, Watch)] == [("digests", ("s", OTHER))]
    assert shim.handle(3.0, StopListening(12)) == [Unwatch(key), Unwatch(("digests", ("s", OTHER)))]


def test_a_reliable_publisher_sends_digests_after_its_last_event_at_growing_distances() -> None:
    shim = shim_of(is_reliable=True, digest_period=0.25, digests_after=3)
    effects = leave(shim, 1.0)
    assert any(isinstance(effect, Departed) for effect in effects)
    timers: list[Effect] = [effect for effect in effects if isinstance(effect, SetTimer)]
    sent_at = []
    while timers:
        sent_at.append(timers[0].at)
        emitted, *timers = shim.handle(timers[0].at, Fired("digest"))
        assert emitted.kind is Kind.DIGEST
    assert sent_at == [1.25, 1.5, 1.875]


def test_a_digest_reaches_those_who_follow_the_publisher() -> None:
    shim = listening()
    shim.handle(1.0, event(5))
    header = Data(THEIRS, 7, 1.0, kind=DIGEST)
    caught = Caught(CarriedEvent(head_of({OF: THEIRS}, Kind.DIGEST), encode_data(header), "s"))
    assert shim.handle(2.0, caught) == [DigestHeard(("s", THEIRS), 7, header)]


@pytest.mark.spec("T-102")
def test_parameters_change_while_it_runs() -> None:
    shim = listening(streams_max=10)
    shim.handle(1.0, event(0))
    shim.handle(1.0, Configure(TransportParams(is_ordered=False, streams_max=1)))
    assert shim.handle(1.0, PublishEvent(HEAD, PAYLOAD)) == [Emit(HEAD, PAYLOAD, Kind.DATA)]
    assert TOO_MANY_STREAMS in drops(shim.handle(2.0, event(0, OTHER)))
    shim.handle(3.0, Configure(TransportParams(ordering=OrderingParams(mode="basic"))))
    (emitted,) = leave(shim, 4.0)
    assert decode_data(emitted.payload)[0].previous == 4.0
