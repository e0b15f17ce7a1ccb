"""What applications ask when they publish.

Every protocol has its own form of it (one event, a batch of encoded ones), and a trace shows each as a publication: it
knows them by their base.
"""

from tidings.machine.inputs import Request
from tidings.model.event import Event


class PublishRequest(Request, frozen=True):
    """Base of the requests that make a `publish` row of a trace."""


class Publish(PublishRequest, frozen=True):
    """The application wants this event to reach whoever asked for it."""

    event: Event
