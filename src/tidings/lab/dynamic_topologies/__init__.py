"""Experiments on topologies that change; the numbers are those of the specification (4.2 to 4.6)."""
