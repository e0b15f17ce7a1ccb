"""Protocols put together by role: a broker, a client."""
