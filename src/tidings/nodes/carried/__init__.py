"""A client whose events go through the transport: order, recovery and congestion control over our brokers."""
