"""Experiments on dependable publish/subscribe; the numbers are those of the specification (4.2 to 4.5)."""
