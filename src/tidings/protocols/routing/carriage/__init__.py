"""Publications on their way: which are taken, where each goes, and how it gets there."""
