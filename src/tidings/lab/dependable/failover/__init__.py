"""Experiments on failover by gossip (dependable.md 4.2)."""
