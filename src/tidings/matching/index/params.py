"""The sizes that shape an index. The defaults are measured; tests make everything tiny so that it all happens soon."""

import msgspec

from tidings.model.errors import UsageError

POSITIONS_MAX = 512
"""Records that one chunk of the fast engine can hold; its rows are then eight words long."""


class IndexParams(msgspec.Struct, frozen=True):
    """How an index is cut into pieces and when it learns. Nothing here changes an answer."""

    chunk_records: int = POSITIONS_MAX
    """Fast engine: a chunk that grows beyond this many records is split. A power of two, at most 512."""

    direct_records: int = 48
    """Fast engine: chunks up to this size have no bit rows, since testing the few records is cheaper."""

    block_records: int = 2048
    """Plain engine: records that share one set of bit rows."""

    link_filters: int = 1024
    """Fast engine: a link with this many filters gets clusters of its own, in which the search can stop early."""

    own_links_max: int = 16
    """Fast engine: how many links may have clusters of their own; each one costs a search of its own per event."""

    learning_records: int = 64
    """Fast engine: bucket edges are reconsidered after this many new records, then after eight times as many, ..."""

    learning_events: int = 64
    """Fast engine: the same for events seen; once it is 512 times as many, it stays at that period."""

    memo_strings: int = 4096
    """String values of one attribute whose atoms are remembered."""

    def __post_init__(self) -> None:
        if not 2 <= self.chunk_records <= POSITIONS_MAX or self.chunk_records & (self.chunk_records - 1):
            raise UsageError(f"chunk_records {self.chunk_records}: use a power of two from 2 to {POSITIONS_MAX}")
        if not 1 <= self.direct_records <= min(self.chunk_records, 64):
            raise UsageError(f"direct_records {self.direct_records}: use 1 to min(chunk_records, 64)")
        for name in (
            "block_records",
            "link_filters",
            "own_links_max",
            "learning_records",
            "learning_events",
            "memo_strings",
        ):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} {getattr(self, name)}: use at least 1")
