"""LSTree: a tree of brokers that finds itself, from any one contact, and mends itself."""
