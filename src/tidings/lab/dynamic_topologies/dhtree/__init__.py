"""The tree from a ring of keys, where everybody knows the same ring."""
