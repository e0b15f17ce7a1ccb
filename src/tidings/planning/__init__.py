"""Planning of topology changes: from today's tree of brokers to another one, in steps that each leave a tree. Pure."""
