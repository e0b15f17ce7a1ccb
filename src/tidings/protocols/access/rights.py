"""Those who are in are judged once more, by what they showed, because the judge has learned something new.

Who is not allowed any more is turned away with the reason; who has other rights than before loses its link without
being rejected, comes back, and is served within the new ones. Nothing is lost by that, since clients and links come
back after every break.
"""

from collections.abc import Iterator, Mapping

from tidings.model.identity import NodeId
from tidings.protocols.access.entrant import Entrant
from tidings.protocols.access.judge import Judge, Verdict, bound_text
from tidings.protocols.access.params import AccessParams
from tidings.pubsub.notes import RightsChanged

REJUDGED_AT_ONCE = 50
"""Entrants that are judged again in one step: signatures are checked for each, and others wait meanwhile."""


def judged_again(
    unjudged: list[NodeId], entrants: Mapping[NodeId, Entrant], judge: Judge, now: float, params: AccessParams
) -> Iterator[tuple[NodeId, Verdict | str, RightsChanged | None]]:
    """Some of them, from the end of `unjudged`, with what is said now; a note where that is another yes than before."""
    for _ in range(min(REJUDGED_AT_ONCE, len(unjudged))):
        node = unjudged.pop()
        entrant = entrants.get(node)
        if entrant is None or entrant.verdict is None or not entrant.asked_role:
            continue
        said, role = entrant.claimed or entrant.name, entrant.asked_role
        verdict = judge(said, role, entrant.credentials, now + params.clock_offset)
        if isinstance(verdict, str) or verdict == entrant.verdict:
            yield node, verdict, None
            continue
        bounds = bound_text(verdict.publish_bound), bound_text(verdict.subscribe_bound)
        yield node, verdict, RightsChanged(entrant.name, verdict.principal, role, *bounds)
