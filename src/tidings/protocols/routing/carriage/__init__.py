"""Ways for publications to get to the neighbours that want them; `carriage.py` is the contract."""
