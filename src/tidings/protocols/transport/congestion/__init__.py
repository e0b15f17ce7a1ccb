"""Rates that the network can carry: receivers say what they can take, publishers keep to it."""
