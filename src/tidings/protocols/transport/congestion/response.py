"""How fast TCP would go: the response function, and the loss rate at which it gives a certain rate.

A flow that loses a share p of its events (counted in loss events, `loss_intervals.py`) and whose answers take a round
trip of t seconds is as fast as a TCP connection would be if it sends

    T = 1 / (t (sqrt(2 p / 3) + 12 sqrt(3 p / 8) p (1 + 32 p p)))        events a second

Without losses there is no limit. Sizes do not occur: an event is what TCP calls a packet (G-16).

Source: the transport specification, 3.6.1.
"""

import math

LOSS_MIN = 1e-9
"""Loss rates below this are not told apart from it when the function is inverted."""

HALVINGS = 60
"""Steps of the search for a loss rate: each halves what is open, of nine decades."""


def cost_of_loss(p: float) -> float:
    """Round trips per event: the part of the response function that depends on losses only."""
    return math.sqrt(2.0 * p / 3.0) + 12.0 * math.sqrt(3.0 * p / 8.0) * p * (1.0 + 32.0 * p * p)


def allowed_rate(p: float, round_trip: float) -> float:
    """Events a second; infinity where nothing is lost."""
    return 1.0 / (round_trip * cost_of_loss(p)) if p > 0.0 else math.inf


def loss_rate_at(rate: float, round_trip: float) -> float:
    """The loss event rate at which `allowed_rate` is `rate`; between LOSS_MIN and 1."""
    if rate <= 0.0:
        return 1.0
    wanted = 1.0 / (rate * round_trip)
    low, high = LOSS_MIN, 1.0
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        if cost_of_loss(middle) < wanted:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)
