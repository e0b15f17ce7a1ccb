"""What an event is called in traces."""

from tidings.protocols.transport.signals import Content, Stream


def event_key(stream: Stream, sequence: int, content: Content | None = None) -> str:
    """As the carrier calls it, where it has names and numbers for events; else as its header does."""
    if content is not None and content.source and content.number:
        return f"{content.source} {content.number}"
    return f"{stream[1]} {sequence}"
