"""A tree copied from a reference tree onto brokers that share out its keys on a ring."""
