"""Experiments of the specification on peer-to-peer systems; so far those about the simulator itself."""
