"""The client without a loop: `with tidings.blocking.connect(url) as client`. See `tidings.net.blocking`."""

from tidings.net.blocking import Advertisement, Client, Subscription, connect

__all__ = ["Advertisement", "Client", "Subscription", "connect"]
