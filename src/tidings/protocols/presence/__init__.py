"""Whether a silent broker is gone, or only out of reach."""
