"""Feeds without servers (Rappel)."""
