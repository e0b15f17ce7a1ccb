"""A machine that confirms a probe only after it is on disk, and tells what it knows when asked."""

from tidings.machine.effects import Effect, Load, Save, Send
from tidings.machine.inputs import Input, Loaded, Received, Saved
from tidings.protocols.teaching.gossip import GossipRequest
from tidings.protocols.teaching.ping import Echo, Probe


class Notary:
    def __init__(self) -> None:
        self.senders: dict[str, str] = {}

    def start(self, now: float) -> list[Effect]:
        return []

    def handle(self, now: float, input: Input) -> list[Effect]:
        match input:
            case Received(sender, Probe(round)):
                self.senders[str(round)] = sender
                return [Save(str(round), b"seen")]
            case Saved(name, None):
                return [Send(self.senders[name], Echo(int(name)))]
            case Received(sender, GossipRequest(_)):
                self.senders[""] = sender
                return [Load("")]
            case Loaded("", entries, None):
                return [Send(self.senders[""], GossipRequest(tuple((name, "seen") for name, _ in entries)))]
        return []

    def check(self) -> None:
        pass
