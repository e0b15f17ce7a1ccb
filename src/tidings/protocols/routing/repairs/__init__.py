"""Ways to repair routing tables when links change; `repair.py` is where to begin."""
