"""A broker answers questions about itself, and what the answers of many brokers mean together."""
