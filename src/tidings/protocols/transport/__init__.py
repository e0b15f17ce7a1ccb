"""Transport: order, recovery and congestion control, end to end, over any network that publishes and subscribes."""
