"""The matching index; `index.py` explains it and maps the modules beside it."""

from tidings.matching.index.answers import Matches
from tidings.matching.index.index import Index
from tidings.matching.index.params import IndexParams

__all__ = ["Index", "IndexParams", "Matches"]
