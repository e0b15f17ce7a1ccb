"""The parameters of ordering, as the streams use them."""

from tidings.protocols.transport.formats import RECORD_MAX
from tidings.protocols.transport.ordering.delays import model_of
from tidings.protocols.transport.ordering.interests import Interests
from tidings.protocols.transport.params import OrderingParams


class Rules:
    __slots__ = ("interests", "is_enhanced", "is_static", "model", "params", "window")

    def __init__(self, params: OrderingParams, interests: Interests) -> None:
        self.params, self.interests = params, interests
        self.model = model_of(params)
        self.is_enhanced, self.is_static = params.mode == "enhanced", params.mode == "static"
        # A record must not reach below what is remembered.
        self.window = max(params.window, RECORD_MAX + 1)

    def bounded(self, latch: float) -> float:
        return min(max(latch, 0.0), self.params.latch_max)
