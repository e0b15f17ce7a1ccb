"""What waits for a neighbour that takes it slowly: whose turn it is, and how much of it may be on the way."""

from tests.worlds.desk import drops, sent
from tests.worlds.edge import C1, EdgeDesk, head, named, served
from tidings.machine.effects import Effect, SetTimer
from tidings.machine.inputs import Fired
from tidings.model.bounds import QUESTIONS_MAX
from tidings.protocols.delivery.edge.flows import TOO_MANY
from tidings.protocols.delivery.edge.params import EdgeParams
from tidings.protocols.delivery.edge.subscriptions import LET_GO_AT_ONCE_MAX
from tidings.protocols.delivery.messages import (
    History,
    HistoryTaken,
    LookFar,
    MarksFar,
    PublishMessage,
    Reference,
)
from tidings.protocols.delivery.sizes import size_of

PAYLOAD = b"y" * 800


def publishing(params: EdgeParams, count: int = 10) -> EdgeDesk:
    """A publisher p here that has published so much; b is a neighbour."""
    desk = EdgeDesk(params)
    desk.neighbours("b")
    desk.up("p")
    desk.advertise("p")
    for number in range(1, count + 1):
        desk.say("p", PublishMessage(1, number, False, (head(number),), (PAYLOAD,)))
    return desk


def question(client: str, number: int, after: int = 0) -> Reference:
    wanted = ((named("p/1", "a"), after),)
    return Reference(client, number, 1, "x >= 0", wanted, None, False, "", "", 1, 10_000, ("b",))


def asked(answers: list[History]) -> list[tuple[str, int]]:
    return [(each.client, each.subscription) for each in answers]


def take_all(desk: EdgeDesk, effects: list[Effect]) -> list[History]:
    """The neighbour takes whatever comes, a message at a time, until nothing comes any more."""
    came, taken_bytes = sent(effects, History), 0
    for each in came:
        taken_bytes += size_of(each)
        came += sent(desk.say("b", HistoryTaken(1, taken_bytes)), History)
    return came


def test_clients_that_wait_are_answered_in_turn_and_each_in_its_order() -> None:
    desk = publishing(EdgeParams(history_window_bytes=1000))
    effects: list[Effect] = []
    for number in range(1, 101):
        effects += desk.say("b", question("greedy", number))
    for number in (1, 2):
        effects += desk.say("b", question("modest", number))
    answers = asked(take_all(desk, effects))
    assert len(answers) == 102
    assert [each[0] for each in answers].index("modest") == 2, "one was on its way, and one had its turn"
    assert max(place for place, each in enumerate(answers) if each[0] == "modest") == 4
    assert [number for client, number in answers if client == "greedy"] == list(range(1, 101))


def test_a_question_that_is_posed_again_while_it_waits_is_answered_once() -> None:
    desk = publishing(EdgeParams(history_window_bytes=1000))
    effects: list[Effect] = []
    for number in (*range(1, 11), *range(1, 11)):
        effects += desk.say("b", question("c", number))
    answers = take_all(desk, effects)
    assert [number for _, number in asked(answers)] == [*range(1, 11), 1], "the first one had been answered before"
    assert not desk.edge.flows.links["b"].identities


def test_how_far_a_publisher_has_come_is_told_ahead_of_what_it_published() -> None:
    desk = publishing(EdgeParams(history_window_bytes=1000))
    (first,) = [each for n in range(1, 101) for each in sent(desk.say("b", question("greedy", n)), History)]
    assert sent(desk.say("b", LookFar(7, (named("p/1", "a"),), ("b",))), MarksFar) == [], "no room"
    effects = desk.say("b", HistoryTaken(1, size_of(first)))
    (marks,), (next_page,) = sent(effects, MarksFar), sent(effects, History)
    assert (marks.reading, next_page.subscription) == (7, 2)


def test_where_too_much_waits_the_client_that_asks_for_most_gives_up_its_last() -> None:
    desk = publishing(EdgeParams(history_window_bytes=1000, unanswered_max=10))
    effects: list[Effect] = []
    for number in range(1, 12):
        effects += desk.say("b", question("greedy", number))
    assert drops(effects) == [], "one is on its way, and ten may wait"
    assert drops(desk.say("b", question("modest", 1))) == [TOO_MANY]
    assert drops(desk.say("b", question("modest", 2))) == [TOO_MANY]
    answers = asked(take_all(desk, effects))
    assert [number for client, number in answers if client == "modest"] == [1, 2]
    assert [number for client, number in answers if client == "greedy"] == list(range(1, 10))


def test_a_neighbour_that_takes_slowly_gets_less_at_a_time_and_more_again_when_it_is_quick() -> None:
    page_bytes = 8 * 1024
    desk = publishing(EdgeParams(history_window_bytes=16 * page_bytes, page_bytes=page_bytes), count=1)
    effects = [each for number in range(1, 5001) for each in desk.say("b", question("c", number))]
    page = size_of(sent(effects, History)[0])
    taken_bytes, under_way, most = 0, len(sent(effects, History)), []
    for wait in [0.0001] * 10 + [0.1] * 400 + [0.0001] * 400:
        desk.now += wait
        taken_bytes += page
        under_way += len(sent(desk.say("b", HistoryTaken(1, taken_bytes)), History)) - 1
        most.append(under_way)
    widest = -(-16 * page_bytes // page)
    assert most[5] == widest
    assert max(most[300:400]) <= widest // 8 + 1, "others wait for what is on its way to it"
    assert most[-1] == widest


def test_making_answers_leaves_time_for_others_and_goes_on_by_itself() -> None:
    desk = publishing(EdgeParams(), count=2000)
    effects = [each for number in range(1, 11) for each in desk.say("b", searching(number))]
    rounds, answers = 1, sent(effects, History)
    assert 0 < len(answers) < 10, "all of this at once would be too long"
    assert len([each for each in effects if isinstance(each, SetTimer) and each.key == "answers"]) == 1
    while len(answers) < 10:
        desk.now += desk.edge.params.held_for
        made = sent(desk.handle(Fired("answers")), History)
        answers, rounds = answers + made, rounds + 1
    assert rounds > 3
    assert [number for _, number in asked(answers)] == list(range(1, 11))


def searching(number: int) -> Reference:
    """A question that takes looking at two thousand different publications to answer with nothing."""
    wanted = ((named("p/1", "a"), 0),)
    return Reference("c", number, 1, "x = 7777", wanted, None, False, "", "", 1000, 100_000, ("b",))


def test_questions_of_several_clients_leave_in_one_message() -> None:
    assert QUESTIONS_MAX > 1
    desk = EdgeDesk(EdgeParams(history_window_bytes=8))
    desk.neighbours("b")
    flows, far = desk.edge.flows, (named("q/1", "z"), 0)
    for round, client in enumerate(("c", "d", "c", "d")):
        one = Reference(client, 1, round, "x >= 0", (far,), None, False, "", "", 1, 1, ("a",))
        flows.put("b", one)
    link = flows.links["b"]
    packed = flows.pack(link, one, [])
    assert not isinstance(packed, Reference)
    assert [each.client for each in packed.questions[1:]] == ["c", "d", "c", "d"]
    assert not link.lanes and not link.waiting_count
    flows.ready.clear()


def test_a_long_queue_of_a_subscription_that_ended_is_let_go_of_in_parts() -> None:
    desk = served()
    desk.is_checked = False
    count = 2 * LET_GO_AT_ONCE_MAX + 10
    desk.installed("c", guarantee="none", policy="drop oldest", window=1, queue_max=count)
    for number in range(1, count + 1):
        desk.arrive("p", (number,), C1)
    client, subscriptions = desk.edge.clients["c"], desk.edge.subscriptions
    assert subscriptions.all["c", 1].outlet.waiting == count - 1
    desk.is_checked = True
    desk.down("c")
    assert client.pending_bytes == 0, "nothing of it counts any more"
    left = [sum(map(len, subscriptions.remains))]
    while subscriptions.remains:
        desk.fire_next()
        left.append(sum(map(len, subscriptions.remains)))
    assert left == [count - 1, count - 1 - LET_GO_AT_ONCE_MAX, 9, 0]
