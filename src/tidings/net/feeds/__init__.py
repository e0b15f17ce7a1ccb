"""Feeds without servers, on sockets: origins that are polled, items that are kept, and readers that are served."""
