"""A client on real sockets, for asyncio and for programs without it."""
