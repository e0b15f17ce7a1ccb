"""The list of all messages: codes for ever, bytes for ever."""

import importlib
import os
import pkgutil
import subprocess
import sys
from typing import Any

import pytest

import tidings
from tidings.machine.message import Contact, Message
from tidings.model.event import Event
from tidings.protocols.access import messages as access
from tidings.protocols.collect import messages as collect
from tidings.protocols.coordinates import messages as coordinates
from tidings.protocols.coordination import messages as coordination
from tidings.protocols.delivery import messages as delivery
from tidings.protocols.feeds import messages as feeds
from tidings.protocols.gossip import lpbcast
from tidings.protocols.gossip.failover import messages as failover
from tidings.protocols.gossip.failover import neighbourhood, random_views
from tidings.protocols.inspection import messages as inspection
from tidings.protocols.overlay import messages as overlay
from tidings.protocols.overlay.dhtree import messages as dhtree
from tidings.protocols.overlay.lstree import messages as lstree
from tidings.protocols.overlay.lstree.order import Colour
from tidings.protocols.overlay.witree import messages as witree
from tidings.protocols.presence import messages as presence
from tidings.protocols.rescue import messages as rescue
from tidings.protocols.routing import guess, interests, radio_flood
from tidings.protocols.routing import messages as routing
from tidings.protocols.routing.carriage import aired, direct, gossiping
from tidings.protocols.routing.destinations import messages as destinations
from tidings.protocols.routing.repairs import messages as repairs
from tidings.protocols.teaching.gossip import Digest, GossipRepair, GossipRequest
from tidings.protocols.teaching.ping import Echo, Probe
from tidings.protocols.transport import carrier
from tidings.pubsub import client
from tidings.pubsub.feeds import Ancestry, RootPlace, Versions
from tidings.pubsub.gathered import GatheredPublications
from tidings.pubsub.pages import page_of
from tidings.pubsub.publications import Publications, PublicationsAround
from tidings.wire import REGISTRY, decode, encode
from tidings.wire.handshake import Goodbye, Heartbeat, Hello, Unreadable

# A line is added for a new message; none is ever changed.
CODES = {
    0x0001: "Hello",
    0x0002: "Goodbye",
    0x0003: "Heartbeat",
    0x0004: "Unreadable",
    0x0101: "Publications",
    0x0102: "GatheredPublications",
    0x0103: "PublicationsAround",
    0x0201: "Attached",
    0x0202: "Rejected",
    0x0203: "Challenge",
    0x0204: "Proof",
    0x0205: "LetGo",
    0x0207: "Attach",
    0x0208: "DrainAsked",
    0x0209: "DrainAnswered",
    0x020A: "MoveAway",
    0x020B: "CannotMove",
    0x020C: "BrokerDrains",
    0x020D: "OtherBrokers",
    0x0300: "SubscriptionAdded",
    0x0301: "SubscriptionRemoved",
    0x0302: "AdvertisementAdded",
    0x0303: "AdvertisementRemoved",
    0x0304: "TablesTold",
    0x0305: "Installed",
    0x0306: "NotInstalled",
    0x0307: "Reached",
    0x0308: "NotReached",
    0x030A: "Counted",
    0x030B: "PublicationsTaken",
    0x030C: "PublicationsSkipped",
    0x030D: "TableChanges",
    0x030E: "TablesTaken",
    0x030F: "ChangesInstalled",
    0x0310: "LinkState",
    0x0311: "Predicates",
    0x0312: "Directed",
    0x0313: "ChangesNotInstalled",
    0x0314: "TablesBegun",
    0x0315: "PartTold",
    0x0316: "Flush",
    0x0317: "Activate",
    0x0318: "PathEdit",
    0x0319: "PathEdited",
    0x031A: "AiredPublications",
    0x031B: "FloodedPublications",
    0x031C: "ShiftWord",
    0x0320: "Interested",
    0x0321: "InterestAsked",
    0x0322: "InterestNamed",
    0x0323: "DirectPublications",
    0x0324: "DirectTaken",
    0x0325: "GroupOpened",
    0x0326: "GroupClosed",
    0x0340: "NearFilters",
    0x0341: "GuessedPublications",
    0x0401: "Unsubscribe",
    0x0402: "Advertise",
    0x0403: "Unadvertise",
    0x0404: "PublishMessage",
    0x0405: "Taken",
    0x0406: "Look",
    0x0407: "Fetch",
    0x0408: "DeliveriesTaken",
    0x0409: "PublisherLife",
    0x040A: "Subscribe",
    0x040B: "Behind",
    0x040C: "ReplyMessage",
    0x0410: "Receipt",
    0x0411: "Refusal",
    0x0412: "Accepted",
    0x0413: "Declined",
    0x0414: "Delivery",
    0x0415: "Missed",
    0x0416: "MarksReply",
    0x0417: "Fetched",
    0x0418: "Namesake",
    0x0419: "Beginning",
    0x041A: "Replied",
    0x0422: "LookFar",
    0x0423: "MarksFar",
    0x0424: "FetchFar",
    0x0425: "FetchedFar",
    0x0426: "Reference",
    0x0427: "PackedReferences",
    0x0428: "History",
    0x0429: "HistoryBegun",
    0x042A: "HistoryTaken",
    0x042B: "NamesakeFar",
    0x042C: "ReplyFar",
    0x042D: "ReplySettledFar",
    0x0500: "Inspect",
    0x0501: "Report",
    0x0503: "TransportReport",
    0x0600: "TreeOffer",
    0x0601: "RenewTree",
    0x0602: "Join",
    0x0603: "Joined",
    0x0604: "Leave",
    0x0605: "Left",
    0x0606: "Stay",
    0x0610: "Linked",
    0x0611: "Unlinked",
    0x0620: "FindOwner",
    0x0621: "OwnerFound",
    0x0622: "AskRing",
    0x0623: "RingTold",
    0x0624: "TreeWish",
    0x0625: "TreeUnwish",
    0x0626: "TreeChanged",
    0x0640: "ParentRequest",
    0x0641: "ParentAccept",
    0x0642: "ParentRefuse",
    0x0643: "ColourUpdate",
    0x0644: "RegionalUpdate",
    0x0645: "ChildLeave",
    0x0646: "MergeHint",
    0x0647: "DepthsSpent",
    0x0648: "GlobalUpdate",
    0x0649: "ContactPing",
    0x064A: "ContactPong",
    0x064B: "FindAnother",
    0x0650: "Beacon",
    0x0651: "ReachQuestion",
    0x0652: "ReachAnswer",
    0x0654: "StrandedDigest",
    0x0680: "GroupGossip",
    0x0681: "GroupPull",
    0x0682: "GroupPush",
    0x0655: "StrandedRequest",
    0x0656: "StrandedPublication",
    0x0660: "RadioHello",
    0x0661: "GroupHello",
    0x0662: "RouteRequest",
    0x0663: "RouteReply",
    0x0664: "TreeHello",
    0x0665: "RootHandover",
    0x0666: "RadioJoin",
    0x0667: "RadioJoined",
    0x0668: "RadioRefused",
    0x0669: "RadioLeave",
    0x066A: "RootCheck",
    0x066B: "RootChecked",
    0x066C: "LinkMended",
    0x066D: "OtherGroup",
    0x0700: "Posted",
    0x0800: "SiblingHeartbeat",
    0x0801: "SiblingAnswer",
    0x0802: "SiblingView",
    0x0803: "LevelReport",
    0x0804: "ViewRequest",
    0x0805: "ViewAnswer",
    0x0806: "GossipPublications",
    0x0807: "GossipOffered",
    0x0808: "GossipAsked",
    0x0810: "ViewsShuffled",
    0x0811: "RandomGossip",
    0x0818: "Nearby",
    0x0819: "PublicationsBeyond",
    0x0900: "PlanAsked",
    0x0901: "PlanAnswered",
    0x0902: "Engage",
    0x0903: "Engaged",
    0x0904: "ActionOrder",
    0x0905: "ActionReported",
    0x0906: "Disengage",
    0x0907: "Disengaged",
    0x0910: "Prepare",
    0x0911: "Prepared",
    0x0A00: "CoordinateProbe",
    0x0A01: "CoordinateEcho",
    0x0B00: "PulsePing",
    0x0B01: "PulseEcho",
    0x0B10: "ProfileAsked",
    0x0B11: "ProfileTold",
    0x0B12: "FriendAsked",
    0x0B13: "FriendAnswered",
    0x0B14: "FriendRemoved",
    0x0B20: "TreeJoin",
    0x0B21: "JoinDenied",
    0x0B22: "JoinForwarded",
    0x0B23: "JoinAccepted",
    0x0B24: "ChangeParent",
    0x0B25: "ParentLeft",
    0x0B26: "ParentLet",
    0x0B27: "AdoptChild",
    0x0B28: "RejoinAt",
    0x0B29: "RootHanded",
    0x0B30: "FeedUpdate",
    0x0B31: "UpdatesAsked",
    0x0B32: "UpdatesPulled",
    0x0B33: "VoidUpdate",
    0x0B34: "ItemSubmitted",
    0x0B40: "RootAsked",
    0x0B41: "RootTold",
    0x0C00: "Enlisted",
    0x0C01: "MembersAsked",
    0x0C02: "MembersTold",
    0x0C03: "PathsTold",
    0x0C04: "PeersAssigned",
    0x0C05: "PathsMeasured",
    0x0C06: "ProbeBlock",
    0x0C07: "ProbeAnswered",
    0x0C08: "BlastAsked",
    0x0C09: "FilesAsked",
    0x0C0A: "FilesTold",
    0x0C0B: "CollectionOpened",
    0x0C0C: "CollectionReady",
    0x0C0D: "CollectRequest",
    0x0C0E: "Directive",
    0x0C0F: "BlockSent",
    0x0C10: "BlockAck",
    0x0C11: "BlockRefused",
    0x0C12: "StatusRequest",
    0x0C13: "StatusUpdate",
    0x0C14: "ReplicatedBlocks",
    0x0C15: "ReplicasTaken",
    0x0C16: "HoldingsAsked",
    0x0C17: "HoldingsTold",
    0x0C18: "BlocksReclaimed",
    0x0C19: "BlocksLost",
    0x0C1A: "FileFailed",
    0x0C1B: "FileDigestAsked",
    0x0C1C: "FileDigestTold",
    0x0C1D: "TransferComplete",
    0x0F00: "Probe",
    0x0F01: "Echo",
    0x0F10: "Digest",
    0x0F11: "GossipRequest",
    0x0F12: "GossipRepair",
}

WANTED = (("p/1", 7), ("q/1", None))
REFERENCE = delivery.Reference("c", 1, 2, "a = 1", WANTED, None, False, "g", "ann", 9, 4096, ("a",))

ONE_STORED = page_of((2.5,), (7,), (b"\x80",), (b"x",))
ONE_STORED_BYTES = "96c4080000000000000440c4080700000000000000c40401000000c40401000000c40180c40178"

LEVEL = failover.LevelView(("c",), (failover.LevelMember(Contact("a", "a:1"), 6),), (("c", 1),))
ON_AIR = Publications("p", "p/1@a", 2.0, 0, (7,), (b"\x80",), (b"x",))
COLOUR, CONTACT = Colour(2, "a"), Contact("a", "h:1")

STANDING = Versions(3, 1)
PLACE_ROOT = RootPlace("r", 2, (0.5,))
ANCESTRY = Ancestry("f", PLACE_ROOT, ("p", "r"), 9)
UPDATE = feeds.UpdateText(7, 1.5, b"x", b"s")
EXAMPLES: list[tuple[Message, str]] = [
    (Hello("a", 1, 1, 2, ("batch",), 3, 4096), "000197a16101010291a5626174636803cd1000"),
    (Goodbye("bye"), "000291a3627965"),
    (Heartbeat(), "000390"),
    (Unreadable(b"12345678", "no"), "000492c4083132333435363738a26e6f"),
    (
        Publications("p", "p/1", 0.5, 0, (7,), (b"\x80",), (b"one",)),
        "010197a170a3702f31cb3fe000000000000000910791c4018091c4036f6e65",
    ),
    (
        GatheredPublications(Publications("p", "p/1", 2.0, 0, (7, 8), (b"\x80",) * 2, (b"",) * 2), (1.0, 2.0)),
        "01029297a170a3702f31cb40000000000000000092070892c40180c4018092c400c40092cb3ff0000000000000cb4000000000000000",
    ),
    (access.Attach("client", b"key", "h:1", "a/b", "goes"), "020795a6636c69656e74c4036b6579a3683a31a3612f62a4676f6573"),
    (access.DrainAsked(1, True), "02089201c3"),
    (access.DrainAnswered(1, "no"), "02099201a26e6f"),
    (access.MoveAway("off", (Contact("b", "h:1"),)), "020a92a36f66669192a162a3683a31"),
    (access.CannotMove("no"), "020b91a26e6f"),
    (access.BrokerDrains(True), "020c91c3"),
    (access.OtherBrokers((Contact("b", "h:1"),)), "020d919192a162a3683a31"),
    (access.Attached("ann", "", "price > 1"), "020193a3616e6ea0a97072696365203e2031"),
    (access.Rejected("no"), "020291a26e6f"),
    (access.Challenge(b"n" * 32), "020391c420" + "6e" * 32),
    (access.Proof(b"s" * 64), "020491c440" + "73" * 64),
    (access.LetGo(), "020590"),
    (routing.SubscriptionAdded(1, "a = 1"), "03009201a561203d2031"),
    (routing.SubscriptionRemoved(2, "a = 1"), "03019202a561203d2031"),
    (routing.AdvertisementAdded(3, "p/1", "p", "a = 1", "b", 7), "03029603a3702f31a170a561203d2031a16207"),
    (routing.AdvertisementRemoved(4, "p/1", True), "03039304a3702f31c3"),
    (routing.TablesTold(), "030490"),
    (routing.Installed(1, ("a", "b"), 2), "0305930192a161a16202"),
    (routing.NotInstalled(1, "late"), "03069201a46c617465"),
    (routing.Reached(5), "03079105"),
    (routing.NotReached(5, "late"), "03089205a46c617465"),
    (routing.TablesBegun(2, 1, b"12345678"), "0314940201c4083132333435363738c400"),
    (routing.PartTold(True, 3, 4), "031593c30304"),
    (repairs.Flush("r1", "b"), "031692a27231a162"),
    (repairs.Activate("r1", "b", bytes(8), None, ("c",)), "031795a27231a162c4080000000000000000c091a163"),
    (aired.AiredPublications(("b",), ON_AIR), "031a9291a16297a170a5702f314061cb400000000000000000910791c4018091c40178"),
    (radio_flood.FloodedPublications(ON_AIR), "031b9197a170a5702f314061cb400000000000000000910791c4018091c40178"),
    (repairs.PathEdit("r1", ("a", "b"), 0, ("x = 1",), ()), "031895a2723192a161a1620091a578203d203190"),
    (repairs.PathEdited("r1", False), "031992a27231c2"),
    (repairs.ShiftWord("s", "turn"), "031c92a173a47475726e"),
    (routing.Counted("p/1", 3, 5), "030a93a3702f310305"),
    (interests.Interested("p/1", 2, 7, True), "032094a3702f310207c3"),
    (interests.InterestAsked("p/1"), "032191a3702f31"),
    (interests.InterestNamed("p/1", "b", "h:1", ("x = 1",)), "032294a3702f31a162a3683a3191a578203d2031"),
    (direct.DirectPublications(ON_AIR), "03239197a170a5702f314061cb400000000000000000910791c4018091c40178"),
    (direct.DirectTaken(300), "032491cd012c"),
    (gossiping.GroupOpened("p/1", (CONTACT,), 7), "032593a3702f319192a161a3683a3107"),
    (gossiping.GroupClosed("p/1"), "032691a3702f31"),
    (guess.NearFilters((("x = 1", 2),)), "0340919192a578203d203102"),
    (guess.GuessedPublications(ON_AIR), "03419197a170a5702f314061cb400000000000000000910791c4018091c40178"),
    (
        lpbcast.GroupGossip("p/1", (lpbcast.Member(CONTACT, 3),), (("c", 2),), (7, 8), ()),
        "068096a3702f31919292a161a3683a31039192a163029207089000",
    ),
    (lpbcast.GroupPull("p/1", (7, 8)), "068192a3702f31920708"),
    (
        lpbcast.GroupPush("p/1", GatheredPublications(ON_AIR, (2.0,))),
        "068292a3702f319297a170a5702f314061cb400000000000000000910791c4018091c4017891cb4000000000000000",
    ),
    (routing.PublicationsTaken(300), "030b91cd012c"),
    (routing.PublicationsSkipped("p", "p/1", 7), "030c93a170a3702f3107"),
    (
        routing.TableChanges(subscriptions_added=(routing.SubscriptionAdded(1, "x > 1"),)),
        "030d959090919201a578203e20319090",
    ),
    (routing.TablesTaken(300), "030e91cd012c"),
    (routing.ChangesInstalled((1, 2), ("a",), 1), "030f9392010291a16101"),
    (routing.ChangesNotInstalled((1, 2), "no"), "031392920102a26e6f"),
    (destinations.LinkState("a", 1, ("b", "c")), "031093a1610192a162a163"),
    (destinations.Predicates("a", 1, 8, 2, 0, b"\x81"), "031196a16101080200c40181"),
    (
        destinations.Directed(("a",), 9, Publications("p", "p/1", 0.5, 0, (7,), (b"\x80",), (b"one",))),
        "03129391a1610997a170a3702f31cb3fe000000000000000910791c4018091c4036f6e65",
    ),
    (
        delivery.Subscribe(1, "a = 1", "reference", 2.5, (("p", 7),), False, "g", "wait", 100, 10),
        "040a9a01a561203d2031a97265666572656e6365cb40040000000000009192a17007c2a167a477616974640a",
    ),
    (delivery.Unsubscribe(1), "04019101"),
    (delivery.Advertise(1, "a = 1", 7, 3, "low"), "04029501a561203d20310703a36c6f77"),
    (delivery.Unadvertise(1), "04039101"),
    (delivery.PublishMessage(1, 7, True, (b"\x80",), (b"x",)), "0404950107c391c4018091c40178"),
    (delivery.Taken(1, 3), "0405920103"),
    (delivery.Behind(1, (("p", 7),)), "040b92019192a17007"),
    (delivery.Beginning(1, (("p", 7),)), "041992019192a17007"),
    (delivery.DeliveriesTaken(300), "040891cd012c"),
    (
        client.Receipt("subscribe", 1, ("a",), 1, 2.5, "a = 1"),
        "041097a97375627363726962650191a16101cb4004000000000000a561203d2031a9696e7374616c6c6564",
    ),
    (delivery.Refusal("publish", 7, "no", False), "041194a77075626c69736807a26e6fc2"),
    (client.Accepted(7), "04129107"),
    (client.Declined((8, 9), "no"), "041392920809a26e6f"),
    (
        delivery.Delivery("p", 2.5, (7,), (b"\x80",), (b"x",), ((1, 2),)),
        "041496a170cb4004000000000000910791c4018091c4017891920102",
    ),
    (client.Missed(1, "p", 0, "gone"), "04159401a17000a4676f6e65"),
    (REFERENCE, "04269da1630102a561203d20319292a3702f310792a3712f31c0c0c2a167a3616e6e09cd100091a161c2"),
    (
        delivery.PackedReferences((REFERENCE, REFERENCE)),
        "042791929da1630102a561203d20319292a3702f310792a3712f31c0c0c2a167a3616e6e09cd100091a161c29da1630102a561203d20319292a3702f310792a3712f31c0c0c2a167a3616e6e09cd100091a161c2",
    ),
    (
        delivery.History(
            *("c", 1, 2, "p/1", "p", None, 3, True, 2, False, ((0, 4),), ((4, 7),), True, 7, "", ("a",)),
            *((2.5,), (7,), (b"\x80",), (b"x",)),
        ),
        "0428dc0015a1630102a3702f31a170c003c302c29192000491920407c307a091a16191cb4004000000000000910791c4018091c4017800",
    ),
    (delivery.HistoryBegun(3, 1024), "04299203cd0400"),
    (delivery.HistoryTaken(3, 256), "042a9203cd0100"),
    (delivery.Look(1, "a = 1"), "04069201a561203d2031"),
    (delivery.Fetch(1, "a = 1", "p", 7, None, 9, 100), "04079801a561203d2031a17007c00964c3"),
    (delivery.PublisherLife("k3"), "040991a26b33"),
    (client.Namesake("p~k3", "b"), "041892a4707e6b33a162"),
    (delivery.ReplyMessage(1, "p", "w", "r", b"\x80", b"x"), "040c9601a170a177a172c40180c40178"),
    (client.Replied("w", "r", b"\x80", b"x"), "041a94a177a172c40180c40178"),
    (delivery.ReplyFar(3, "p/1@a", "w", "r", b"\x80", b"x", ("b",)), "042c9703a5702f314061a177a172c40180c4017891a162"),
    (delivery.ReplySettledFar(3, "p/1@a", "", ("b",)), "042d9403a5702f314061a091a162"),
    (delivery.NamesakeFar("p~v9/1@a", "p~k3", "b", ("b",)), "042b94a8707e76392f314061a4707e6b33a16291a162"),
    (
        client.MarksReply(1, (("p", 2, 9),), ("a = 1",), ("q",), True, ("a",), ("b",), 2.0),
        "041698019193a170020991a561203d203191a171c391a16191a162cb4000000000000000",
    ),
    (
        client.Fetched(1, 9, False, True, ONE_STORED),
        "0417950109c2c3" + ONE_STORED_BYTES,
    ),
    (delivery.LookFar(1, ("p/1@b",), ("a",)), "0422930191a5702f31406291a161"),
    (
        delivery.MarksFar(1, (("p/1@b", 9, ((0, 2),), ((2, 9),)),), ("q/1@c",), ("a",)),
        "042394019194a5702f31406209919200029192020991a5712f31406391a161",
    ),
    (
        delivery.FetchFar(1, "p/1@b", "a = 1", 7, None, 9, 100, ("a",)),
        "04249901a5702f314062a561203d203107c0096491a161c3",
    ),
    (
        delivery.FetchedFar(1, "p/1@b", "", 7, 9, 8, True, ((7, 8),), ((0, 3),), ((8, 9),), ("a",), ONE_STORED),
        "04259c01a5702f314062a0070908c391920708919200039192080991a161" + ONE_STORED_BYTES,
    ),
    (inspection.Inspect(1, "links", "", 0), "05009401a56c696e6b73a000"),
    (inspection.Report(1, b"[]", 7, ""), "05019401c4025b5d07a0"),
    (inspection.TransportReport(b"[]"), "050391c4025b5d"),
    (overlay.TreeOffer(0.5, "a", 1, 2), "060094cb3fe0000000000000a1610102"),
    (overlay.RenewTree(0.5, "a", 2), "060193cb3fe0000000000000a16102"),
    (overlay.Join(), "060290"),
    (overlay.Joined(), "060390"),
    (overlay.Leave(), "060490"),
    (overlay.Left(), "060590"),
    (overlay.Stay(), "060690"),
    (overlay.Linked(1, "r"), "06109201a172"),
    (overlay.Unlinked(2, ""), "06119202a0"),
    (dhtree.FindOwner(1, 2, ("a",)), "062093010291a161"),
    (dhtree.OwnerFound(2, ("a",), dhtree.RingMember(Contact("b", "h:7"), 5), 3), "0621940291a1619292a162a3683a370503"),
    (dhtree.AskRing(5), "06229105"),
    (dhtree.RingTold(5, None, (dhtree.RingMember(Contact("b"), 7),)), "06239305c0919292a162a007"),
    (dhtree.TreeWish(1, 2), "0624920102"),
    (dhtree.TreeUnwish(), "062590"),
    (dhtree.TreeChanged(), "062690"),
    (
        lstree.ParentRequest(7, COLOUR, 1.5, True, False, False, "b/6"),
        "064097079202a161cb3ff8000000000000c3c2c2a3622f36",
    ),
    (lstree.ParentAccept(7, COLOUR, 0.5, (CONTACT,), ()), "064195079202a161cb3fe00000000000009192a161a3683a3190"),
    (lstree.ParentRefuse(7, lstree.RefusalReason.MAXDEGREE, (CONTACT,)), "06429307029192a161a3683a31"),
    (lstree.ColourUpdate(COLOUR, 0.5), "0643929202a161cb3fe0000000000000"),
    (lstree.RegionalUpdate((CONTACT,), (CONTACT,), 0.5), "0644939192a161a3683a319192a161a3683a31cb3fe0000000000000"),
    (lstree.ChildLeave("b/6"), "064591a3622f36"),
    (lstree.MergeHint(CONTACT, COLOUR), "06469292a161a3683a319202a161"),
    (lstree.DepthsSpent(), "064790"),
    (lstree.GlobalUpdate((CONTACT,)), "0648919192a161a3683a31"),
    (lstree.ContactPing(COLOUR), "0649919202a161"),
    (lstree.ContactPong(COLOUR), "064a919202a161"),
    (lstree.FindAnother(), "064b90"),
    (presence.Beacon(), "065090"),
    (presence.ReachQuestion(CONTACT), "06519192a161a3683a31"),
    (presence.ReachAnswer("a", True), "065292a161c3"),
    (rescue.StrandedDigest((("p/1@a", 7),), True), "0654929192a5702f31406107c3"),
    (rescue.StrandedRequest((("p/1@a", 7),)), "0655919192a5702f31406107"),
    (
        rescue.StrandedPublication("p", "p/1@a", 0.5, 7, b"\x80", b"x", 1.5),
        "065697a170a5702f314061cb3fe000000000000007c40180c40178cb3ff8000000000000",
    ),
    (witree.RadioHello(True), "066091c3"),
    (witree.GroupHello("a", 3), "066192a16103"),
    (witree.RouteRequest("a", 4, "b", 2, "c", 1), "066296a16104a16202a16301"),
    (witree.RouteReply("a", 4, "d", 2, ("c",)), "066395a16104a1640291a163"),
    (witree.TreeHello("a", 3, 1), "066493a1610301"),
    (witree.RootHandover("d", ("c",), "a/1", ("a",), "l", 2), "066596a16491a163a3612f3191a161a16c02"),
    (witree.RadioJoin(5, "a/1"), "06669205a3612f31"),
    (witree.RadioJoined(5, "a", 3, 2), "06679405a1610302"),
    (witree.RadioRefused(5), "06689105"),
    (witree.RadioLeave(), "066990"),
    (witree.RootCheck("c", 5, ("d",)), "066a93a1630591a164"),
    (witree.RootChecked("c", 5, ("d",), True), "066b94a1630591a164c3"),
    (witree.LinkMended("a/1", ("a",), ("a", "c"), "d"), "066c94a3612f3191a16192a161a163a164"),
    (witree.OtherGroup("a"), "066d91a161"),
    (
        PublicationsAround("p", "p/1", 0.5, 0, (7,), (b"\x80",), (b"one",)),
        "010397a170a3702f31cb3fe000000000000000910791c4018091c4036f6e65",
    ),
    (failover.SiblingHeartbeat(3), "08009103"),
    (failover.SiblingAnswer(3, 2), "0801920302"),
    (
        failover.SiblingView(
            3, 2, (("p/1@a", 5),), (failover.SiblingMember(CONTACT, 2, (("p/1@a", 4),)),), (("c", 1),), (("d", 2),)
        ),
        "08029603029192a5702f31406105919392a161a3683a31029192a5702f314061049192a163019192a16402",
    ),
    (
        failover.LevelReport(3, 4, (LEVEL,), ((CONTACT,),)),
        "0803940304919391a163919292a161a3613a31069192a16301919192a161a3683a31",
    ),
    (failover.ViewRequest(3), "08049103"),
    (failover.ViewAnswer(2, (failover.LevelMember(CONTACT, 6),)), "08059202919292a161a3683a3106"),
    (
        failover.GossipPublications(ON_AIR, "c", True, 1, (("d",),)),
        "08069597a170a5702f314061cb400000000000000000910791c4018091c40178a163c3019191a164",
    ),
    (failover.GossipOffered("p/1@a", (7,), "c"), "080793a5702f3140619107a163"),
    (failover.GossipAsked("p/1@a", (7,), "c"), "080893a5702f3140619107a163"),
    (random_views.ViewsShuffled((CONTACT,), True), "0810929192a161a3683a31c3"),
    (
        random_views.RandomGossip(ON_AIR, "c", 2),
        "08119397a170a5702f314061cb400000000000000000910791c4018091c40178a16302",
    ),
    (
        neighbourhood.Nearby((neighbourhood.NearbyBroker(CONTACT, "b", 2, ("a = 1",)),)),
        "081891919492a161a3683a31a1620291a561203d2031",
    ),
    (
        neighbourhood.PublicationsBeyond(ON_AIR, "c"),
        "08199297a170a5702f314061cb400000000000000000910791c4018091c40178a163",
    ),
    (carrier.Posted(b"\x80", b"x"), "070092c40180c40178"),
    (coordination.PlanAsked(1, "abort"), "09009301a561626f7274c400"),
    (coordination.PlanAnswered(1, "p", ""), "09019301a170a0"),
    (coordination.Engage("p"), "090291a170"),
    (coordination.Engaged("p", ("b",), ""), "090393a17091a162a0"),
    (
        coordination.ActionOrder("p", 0, "append", (CONTACT, CONTACT)),
        "090494a17000a6617070656e649292a161a3683a3192a161a3683a31",
    ),
    (coordination.ActionReported("p", 0, True, ""), "090594a17000c3a0"),
    (coordination.Disengage("p"), "090691a170"),
    (coordination.Disengaged("p"), "090791a170"),
    (coordination.Prepare("s", "p", 0), "091093a173a17000"),
    (coordination.Prepared("s", ""), "091192a173a0"),
    (coordinates.CoordinateProbe(3), "0a009103"),
    (
        coordinates.CoordinateEcho(3, (0.5, -1.0), 0.25),
        "0a01930392cb3fe0000000000000cbbff0000000000000cb3fd0000000000000",
    ),
    (feeds.PulsePing(STANDING, 4, ("b",), ("f",), True), "0b00959203010491a16291a166c3"),
    (
        feeds.PulseEcho(STANDING, 4, ("b",), (ANCESTRY,), False),
        "0b01959203010491a1629194a16693a1720291cb3fe000000000000092a170a17209c2",
    ),
    (feeds.ProfileAsked(STANDING), "0b1091920301"),
    (feeds.ProfileTold(STANDING, b"i" * 128, (0.5,)), "0b1193920301c480" + "69" * 128 + "91cb3fe0000000000000"),
    (feeds.FriendAsked(STANDING), "0b1291920301"),
    (feeds.FriendAnswered(STANDING, True, ("b",)), "0b1393920301c391a162"),
    (feeds.FriendRemoved(STANDING), "0b1491920301"),
    (feeds.TreeJoin(STANDING, "f", (0.5,), 6, 2, 1, "first"), "0b2097920301a16691cb3fe0000000000000060201a56669727374"),
    (feeds.JoinDenied(STANDING, "f"), "0b2192920301a166"),
    (feeds.JoinForwarded(STANDING, "f", "b", 2), "0b2294920301a166a16202"),
    (
        feeds.JoinAccepted(STANDING, "f", PLACE_ROOT, ("p", "r")),
        "0b2394920301a16693a1720291cb3fe000000000000092a170a172",
    ),
    (feeds.ChangeParent(STANDING, "f", "b"), "0b2493920301a166a162"),
    (feeds.ParentLeft(STANDING, "f"), "0b2592920301a166"),
    (feeds.ParentLet(STANDING, "f"), "0b2692920301a166"),
    (feeds.AdoptChild(STANDING, "f", "c", (0.5,)), "0b2794920301a166a16391cb3fe0000000000000"),
    (feeds.RejoinAt(STANDING, "f", "b"), "0b2893920301a166a162"),
    (feeds.RootHanded(STANDING, "f", 3), "0b2993920301a16603"),
    (feeds.FeedUpdate(STANDING, "f", UPDATE), "0b3093920301a1669407cb3ff8000000000000c40178c40173"),
    (feeds.UpdatesAsked(STANDING, "f", 6, (3, 4)), "0b3194920301a16606920304"),
    (feeds.UpdatesPulled(STANDING, "f", (UPDATE,), 9), "0b3294920301a166919407cb3ff8000000000000c40178c4017309"),
    (feeds.VoidUpdate(STANDING, "f", 9), "0b3393920301a16609"),
    (feeds.ItemSubmitted(STANDING, "f", UPDATE), "0b3493920301a1669407cb3ff8000000000000c40178c40173"),
    (feeds.RootAsked(STANDING, "f", 3), "0b4093920301a16603"),
    (feeds.RootTold(STANDING, "f", "b", 2, ("c", "d")), "0b4195920301a166a1620292a163a164"),
    (
        collect.Enlisted(Contact("a", "h:1"), True, 1.5, 2.5),
        "0c009492a161a3683a31c3cb3ff8000000000000cb4004000000000000",
    ),
    (collect.MembersAsked(), "0c0190"),
    (
        collect.MembersTold((collect.Enlisted(Contact("a"), False),)),
        "0c0291919492a161a0c2cb0000000000000000cb0000000000000000",
    ),
    (collect.PathsTold("a", (("b", 1.5),)), "0c0392a1619192a162cb3ff8000000000000"),
    (collect.PeersAssigned((Contact("a", "h:1"),)), "0c04919192a161a3683a31"),
    (
        collect.PathsMeasured((("b", 1.5),), 2.5, 3.5),
        "0c05939192a162cb3ff8000000000000cb4004000000000000cb400c000000000000",
    ),
    (collect.ProbeBlock(7, 1, 8, b"f"), "0c0694070108c40166"),
    (collect.ProbeAnswered(7, 1.5), "0c079207cb3ff8000000000000"),
    (collect.BlastAsked(30.0), "0c0891cb403e000000000000"),
    (collect.FilesAsked("j", ("*.gz",)), "0c0992a16a91a42a2e677a"),
    (collect.FilesTold("j", (collect.SharedFile("f", 300, 5),), True, ""), "0c0a94a16a9193a166cd012c05c3a0"),
    (
        collect.CollectionOpened(
            "j", "c", 65536, (Contact("a"),), 0, (collect.SharedFile("f", 300, 5),), True, ((0, 2),), False
        ),
        "0c0b99a16aa163ce000100009192a161a0009193a166cd012c05c391920002c2",
    ),
    (collect.CollectionReady("j", 3, "no"), "0c0c93a16a03a26e6f"),
    (
        collect.CollectRequest("j", 65536, (("a", 3),), (("a", 2),), ("b",), 1, "planned", 0),
        "0c0d98a16ace000100009192a161039192a1610291a16201a7706c616e6e656400",
    ),
    (
        collect.Directive("j", 2, (collect.DirectedShare("t", 3, 1.5),), True, (("x", 1),), 300),
        "0c0e96a16a029193a17403cb3ff8000000000000c39192a17801cd012c",
    ),
    (collect.BlockSent("j", "a", 3, -7, b"d"), "0c0f95a16aa16103f9c40164"),
    (collect.BlockAck("j", "a", 3), "0c1093a16aa16103"),
    (collect.BlockRefused("j", "a", 3, "no"), "0c1194a16aa16103a26e6f"),
    (collect.StatusRequest("j", 2), "0c1292a16a02"),
    (
        collect.StatusUpdate("j", 2, (("a", 3),), (("t", 1.5),), ("y",), 2.5, 3.5),
        "0c1397a16a029192a161039192a174cb3ff800000000000091a179cb4004000000000000cb400c000000000000",
    ),
    (collect.ReplicatedBlocks("j", ((0, 2),)), "0c1492a16a91920002"),
    (collect.ReplicasTaken("j", ((0, 2),)), "0c1592a16a91920002"),
    (collect.HoldingsAsked("j", 1), "0c1692a16a01"),
    (collect.HoldingsTold("j", 1, "a", ((0, 2),), ((5, 1),), False), "0c1796a16a01a1619192000291920501c2"),
    (collect.BlocksReclaimed("j", "a", ((0, 2),)), "0c1893a16aa16191920002"),
    (collect.BlocksLost("j", "a", ((0, 2),)), "0c1993a16aa16191920002"),
    (collect.FileFailed("j", 1, "no"), "0c1a93a16a01a26e6f"),
    (collect.FileDigestAsked("j", 1), "0c1b92a16a01"),
    (collect.FileDigestTold("j", 1, b"s", ""), "0c1c94a16a01c40173a0"),
    (collect.TransferComplete("j", "no"), "0c1d92a16aa26e6f"),
    (Probe(7), "0f009107"),
    (Echo(300), "0f0191cd012c"),
    (Digest((("/a", "1"), ("/a", "2"))), "0f10919292a22f61a13192a22f61a132"),
    (GossipRequest((("/a", "1"),)), "0f11919192a22f61a131"),
    (GossipRepair(Event({"x": 1.5, "id": "1"}, b"p")), "0f1292c4017082a26964a131a178cb3ff8000000000000"),
]


def test_codes_are_unique_and_stay_what_they_were() -> None:
    assert {code: type.__name__ for code, type in REGISTRY.types.items()} == CODES
    assert len(set(REGISTRY.types.values())) == len(CODES)


@pytest.mark.parametrize(("message", "data"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_the_bytes_of_a_message_stay_what_they_were(message: Message, data: str) -> None:
    assert encode(message).hex() == data
    assert decode(bytes.fromhex(data)) == message


def test_there_is_an_example_of_every_message() -> None:
    assert {type(message) for message, _ in EXAMPLES} == set(REGISTRY.types.values())


def test_every_message_that_is_defined_is_listed() -> None:
    for module in pkgutil.walk_packages(tidings.__path__, "tidings."):
        if module.name.split(".")[1] in ("machine", "nodes", "protocols", "pubsub", "wire"):
            importlib.import_module(module.name)
    # What never leaves the simulator's own process has no code, nor has what others are made from.
    defined = {kind for kind in subclasses(Message) if kind.__module__.startswith("tidings.")} - {feeds.FeedMessage}
    assert {kind for kind in defined if kind.__module__.split(".")[1] not in ("sim", "lab")} == set(
        REGISTRY.types.values()
    )


def subclasses(kind: type) -> set[type]:
    below: set[type] = set()
    child: type
    for child in kind.__subclasses__():
        below |= {child} | subclasses(child)
    return below


def test_bytes_are_the_same_under_every_hash_seed() -> None:
    program = (
        "from tidings.model.event import Event; from tidings.wire import encode;"
        "from tidings.wire.handshake import hello; from tidings.protocols.teaching.gossip import GossipRepair;"
        "print(encode(hello('a', capabilities=set('hgfedcba'))).hex(),"
        "encode(GossipRepair(Event({name: 1 for name in set('hgfedcba')}))).hex())"
    )
    answers: set[Any] = set()
    for seed in ("0", "1", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        answers.add(
            subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True).stdout
        )
    assert len(answers) == 1
