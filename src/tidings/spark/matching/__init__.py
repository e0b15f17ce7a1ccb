"""Bulk matching of a table or stream of events with a table of subscriptions; `bulk.py` explains it."""

from tidings.spark.matching.bulk import match
from tidings.spark.matching.index_file import SUBSCRIPTIONS_MAX, build_index_file

__all__ = ["SUBSCRIPTIONS_MAX", "build_index_file", "match"]
