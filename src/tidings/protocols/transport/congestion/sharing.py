"""One rate for several flows: nobody gets more while somebody who wants more gets less.

Max-min: each flow gets what it has, unless that is more than an equal part of what is left; the flows that want least
are served first, and what they leave is divided among the rest. With priorities a part is not equal but as large as its
weight says (F-9).

Source: the transport specification, 3.7.3.
"""

from collections.abc import Sequence


def share_max_min(rates: Sequence[float], total: float, weights: Sequence[float]) -> list[float]:
    """What each may have, in the order of `rates`; together `total`, or all that they want if that is less."""
    shares = [0.0] * len(rates)
    remaining, weight_left = total, sum(weights)
    for place in sorted(range(len(rates)), key=lambda place: rates[place] / weights[place]):
        part = remaining * weights[place] / weight_left
        shares[place] = min(rates[place], part)
        remaining = max(0.0, remaining - shares[place])
        weight_left -= weights[place]
    return shares
