"""What a broker answers that is asked to be above another one.

Two questions, in this order. Is it safe? That is the order of places (`order.py`) and nothing else: no wish of anybody
overrides it, and what was heard before from third parties has no part in it. Is it welcome? That is a matter of
degrees, and whoever finds nobody else may insist. The depth is lowered only if both answers are yes.

Source: dynamic-topologies.md 3.9.4; D-77, D-78, D-83, D-84, D-97.
"""

import msgspec

from tidings.machine.message import Contact
from tidings.protocols.overlay.lstree.kinship import Kinship
from tidings.protocols.overlay.lstree.messages import ParentRequest, RefusalReason
from tidings.protocols.overlay.lstree.order import GAP_MIN, BrokerPlace, comes_before, lowered, may_be_below


class CandidateAnswer(msgspec.Struct, frozen=True):
    depth: float = 0.0
    """Ours from now on, if the answer is yes."""
    refusal: RefusalReason | None = None
    contacts: tuple[Contact, ...] = ()
    """Whom to ask instead."""
    wins: bool = False
    """The one who asks is of another tree, and it is ours that may go below it."""
    is_spent: bool = False
    """There is no depth left between the one above us and the one who asks."""


def decide(kin: Kinship, sender: str, request: ParentRequest) -> CandidateAnswer:
    place, params = kin.place, kin.params
    asking = BrokerPlace(request.colour, request.depth)
    if kin.is_above(sender):
        # By the order it is not viable either; said here for one who lies about his place.
        return CandidateAnswer(refusal=RefusalReason.NOT_VIABLE)
    if not place.colour:
        return CandidateAnswer(refusal=RefusalReason.BUSY)
    depth = place.depth
    if not may_be_below(asking, place):
        if asking.colour != place.colour:
            return CandidateAnswer(refusal=RefusalReason.NOT_VIABLE, wins=comes_before(place.colour, asking.colour))
        if params.is_integer:
            # There is no room between whole numbers, so nothing is gained by waiting until we have a place.
            return CandidateAnswer(refusal=RefusalReason.NOT_VIABLE)
        if kin.is_asking:
            # Our place must not change while an answer to our own request is on its way.
            return CandidateAnswer(refusal=RefusalReason.BUSY)
        above = kin.above
        found = None if above is None else lowered(above.depth, asking.depth)
        if found is None:
            is_spent = above is not None and 0 < asking.depth - above.depth <= GAP_MIN
            return CandidateAnswer(refusal=RefusalReason.NOT_VIABLE, is_spent=is_spent)
        depth = found
    if len(kin.below) >= params.children_max:
        return CandidateAnswer(refusal=RefusalReason.NOT_VIABLE)
    if params.has_degrees and (kin.is_drained or kin.degree >= params.degree_max) and not request.breaks_max:
        # Those below us can be above it only if we are: where we would have to be lowered first, they are of no use.
        is_below = depth == place.depth
        children = [relative.contact for relative in kin.below.values()] if is_below else []
        if kin.is_drained and kin.above is not None:
            children.append(kin.above.contact)
        chosen = kin.rng.sample(children, params.refused_contacts)
        return CandidateAnswer(refusal=RefusalReason.MAXDEGREE, contacts=tuple(chosen))
    if params.has_degree_min and kin.degree < params.degree_min and not request.breaks_min:
        above_us = () if kin.above is None else (kin.above.contact,)
        return CandidateAnswer(refusal=RefusalReason.MINDEGREE, contacts=above_us)
    return CandidateAnswer(depth)
