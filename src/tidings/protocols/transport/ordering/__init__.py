"""Ordering: events of each publisher in the order in which they were sent, and the ones of ours that never came."""
