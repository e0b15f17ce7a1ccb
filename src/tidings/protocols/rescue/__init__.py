"""Bringing publications around a failure where nothing is stored; `epidemic.py` is where to begin."""
