"""Bulk matching of a table or stream of events with a table of subscriptions; `bulk.py` explains it."""

from tidings.spark.matching.builder import SUBSCRIPTIONS_MAX, build_index_file
from tidings.spark.matching.bulk import match
from tidings.spark.matching.cross_join import match_by_cross_join

__all__ = ["SUBSCRIPTIONS_MAX", "build_index_file", "match", "match_by_cross_join"]
