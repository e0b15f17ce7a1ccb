"""The client without a loop: `with tidings.blocking.connect(url) as client`. See `tidings.net.client.blocking`."""

from tidings.net.client.blocking import Advertisement, Client, Subscription, connect

__all__ = ["Advertisement", "Client", "Subscription", "connect"]
