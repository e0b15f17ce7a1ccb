"""Experiments on routing by popularity (PopSub): E9 to E13."""
