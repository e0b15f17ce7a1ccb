"""The client's side of delivery: what it asked for, over all its connections."""
