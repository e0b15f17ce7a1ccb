"""The matching index; `index.py` explains it and maps the modules beside it."""

from tidings.matching.index.answers import IndexParams, Matches
from tidings.matching.index.index import Index

__all__ = ["Index", "IndexParams", "Matches"]
