"""A broker on real sockets as a service: configuration, metrics, health."""
