"""Answers of several brokers about one publisher, put together.

A publisher that came from another broker has a part of its publications at each of the two, and some perhaps at both.
What one of them lacks the other may have; only what neither has is lost.
"""

from itertools import groupby

from tidings.model.bounds import INTEGER_MAX
from tidings.protocols.delivery.edge.history import count_of, within, without
from tidings.protocols.delivery.messages import History
from tidings.pubsub.publications import Publications


def lost_behind(position: int | None, answers: list[History]) -> tuple[bool, int]:
    """Whether anything is lost behind that position, or of what was asked for without one, and how much at most: what
    one broker lacks, another may have."""
    truncated = [each for each in answers if each.is_truncated]
    held = [extent for each in answers for extent in each.held]
    if position is not None:
        lacking = [extent for each in answers for extent in within(each.lacking, position, INTEGER_MAX)]
        missing = count_of(without(lacking, held))
    else:
        lacking = [extent for each in truncated for extent in within(each.lacking, each.begin, INTEGER_MAX)]
        missing = min(count_of(without(lacking, held)), sum(each.missing for each in truncated))
        # What the others lack behind their beginnings was published elsewhere, at a broker that has not answered.
        others = [each for each in answers if not each.is_truncated]
        elsewhere = [extent for each in others for extent in within(each.lacking, each.begin, INTEGER_MAX)]
        missing += count_of(without(elsewhere, [*held, *lacking]))
    if len(answers) == 1 and truncated:
        # What it has forgotten it counts itself, and best.
        missing = max(missing, answers[0].missing) if answers[0].missing else 0
    return missing > 0 or len(truncated) == len(answers), missing


def merged(answers: list[History], early: list[Publications], through: int) -> list[Publications]:
    """What is stored of a publisher at one or several brokers, and what came behind that, in the order of numbers and
    each once, up to a number. Those that were accepted at the same time are a batch."""
    found: dict[int, tuple[float, bytes, bytes]] = {}
    for each in answers:
        columns = zip(each.numbers, each.accepted_at, each.heads, each.payloads, strict=True)
        found |= {number: (at, head, payload) for number, at, head, payload in columns if number <= through}
    for batch in early:
        rows = zip(batch.numbers, batch.heads, batch.payloads, strict=True)
        found |= {number: (batch.accepted_at, head, payload) for number, head, payload in rows if number <= through}
    made = []
    for at, run in groupby(sorted(found), key=lambda number: found[number][0]):
        numbers = tuple(run)
        _, heads, payloads = zip(*[found[number] for number in numbers], strict=True)
        made.append(Publications(answers[0].publisher, answers[0].advertisement, at, 0, numbers, heads, payloads))
    return made
