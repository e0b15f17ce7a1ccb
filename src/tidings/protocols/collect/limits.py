"""A rate that is kept to: what was spent beyond it has to be waited for."""

BURST_SECONDS = 0.05
"""What was not used is saved up for so long only."""


class TokenBucket:
    """Bits a second; 0 is no limit. Spending is always possible, and then takes its time: `wait` says how long."""

    def __init__(self, rate_bps: float) -> None:
        self.rate_bps = rate_bps
        self.debt_bits = 0.0
        self.seen_at: float | None = None

    @property
    def is_limited(self) -> bool:
        return self.rate_bps > 0

    def wait(self, now: float) -> float:
        """Seconds until something may be spent; 0 for now."""
        if not self.is_limited:
            return 0.0
        if self.seen_at is not None and now > self.seen_at:
            self.debt_bits = max(-BURST_SECONDS * self.rate_bps, self.debt_bits - (now - self.seen_at) * self.rate_bps)
        self.seen_at = now
        return self.debt_bits / self.rate_bps if self.debt_bits > 1e-6 else 0.0

    def spend(self, bits: float) -> None:
        if self.is_limited:
            self.debt_bits += bits
