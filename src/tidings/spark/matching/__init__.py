"""Bulk matching of a table or stream of events with a table of subscriptions (`bulk.py`), or with a stream of changes
of subscriptions (`versions.py`)."""

from tidings.spark.matching.bulk import match
from tidings.spark.matching.index_file import SUBSCRIPTIONS_MAX, build_index_file
from tidings.spark.matching.versions import match_changing

__all__ = ["SUBSCRIPTIONS_MAX", "build_index_file", "match", "match_changing"]
