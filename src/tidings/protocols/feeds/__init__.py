"""Feeds without servers: their readers bring them to each other."""
