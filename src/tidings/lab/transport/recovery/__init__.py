"""Recovery (E10 to E16), and what it reaches as a whole (`loss`, our own)."""
