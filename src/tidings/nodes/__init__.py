"""Protocols put together by role: a broker, a dispatcher, a client, a client with a transport."""
