"""Repairs of routing on a tree of peers that come and go: E24 to E28."""
