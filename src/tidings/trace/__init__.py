"""The record of what happened: one schema that the simulator and real nodes both write."""
