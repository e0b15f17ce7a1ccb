"""Gossip around failed brokers (GEPS), and what it is compared with; `failover.py` is where to begin."""
