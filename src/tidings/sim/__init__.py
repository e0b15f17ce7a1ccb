"""The simulated world: the same machines as on sockets, on a network made of rules, in time that jumps."""
