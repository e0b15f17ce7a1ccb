"""Congestion control (E17 to E25)."""
