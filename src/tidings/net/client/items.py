"""An inbox that keeps nothing: what the machine of a client delivers goes on at once, to whoever is meant."""

from collections.abc import Callable
from typing import Any

from tidings.net.inbox import Inbox
from tidings.net.params import InboxPolicy


class Items(Inbox):
    """`handlers` take items by their type; `stopped` hears that nothing more comes."""

    def __init__(self) -> None:
        super().__init__(1, InboxPolicy.DROP_NEWEST, lambda: None)
        self.handlers: dict[type, Callable[[Any], None]] = {}
        self.stopped: Callable[[BaseException | None], None] = lambda failure: None

    def put(self, item: Any) -> Any:
        self.handlers[type(item)](item)
        return ()

    def end(self, failure: BaseException | None) -> None:
        super().end(failure)
        self.stopped(failure)
