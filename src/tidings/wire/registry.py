"""Every message there is, with its code: the one list.

A code is for ever. A message that changes its fields gets a new code under a new version of the protocol
(`handshake.py`), and one that goes leaves its code unused, so that old traces and old nodes are never misread.
The first byte of a code tells the family, and a new family takes the next free one.
"""

from tidings.model.bounds import OPENING_BYTES_MAX
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
from tidings.protocols.overlay.witree import messages as witree
from tidings.protocols.presence import messages as presence
from tidings.protocols.rescue import messages as rescue
from tidings.protocols.routing import guess, interests, radio_flood
from tidings.protocols.routing import messages as routing
from tidings.protocols.routing.carriage import aired, direct, gossiping
from tidings.protocols.routing.destinations import messages as destinations
from tidings.protocols.routing.repairs import messages as repairs
from tidings.protocols.teaching import gossip, ping
from tidings.protocols.transport import carrier
from tidings.pubsub import client
from tidings.pubsub.gathered import GatheredPublications
from tidings.pubsub.publications import Publications, PublicationsAround, decode_event, encode_event
from tidings.wire.codec import Registry
from tidings.wire.handshake import Goodbye, Heartbeat, Hello, Unreadable

REGISTRY = Registry()

REGISTRY.add(0x0001, Hello, bytes_max=OPENING_BYTES_MAX)
REGISTRY.add(0x0002, Goodbye)
REGISTRY.add(0x0003, Heartbeat)
REGISTRY.add(0x0004, Unreadable)

REGISTRY.add(0x0101, Publications)
REGISTRY.add(0x0102, GatheredPublications)
REGISTRY.add(0x0103, PublicationsAround)

REGISTRY.add(0x0201, access.Attached)
REGISTRY.add(0x0202, access.Rejected)
REGISTRY.add(0x0203, access.Challenge)
REGISTRY.add(0x0204, access.Proof)
REGISTRY.add(0x0205, access.LetGo)
REGISTRY.add(0x0207, access.Attach)
REGISTRY.add(0x0208, access.DrainAsked)
REGISTRY.add(0x0209, access.DrainAnswered)
REGISTRY.add(0x020A, access.MoveAway)
REGISTRY.add(0x020B, access.CannotMove)
REGISTRY.add(0x020C, access.BrokerDrains)
REGISTRY.add(0x020D, access.OtherBrokers)

REGISTRY.add(0x0300, routing.SubscriptionAdded)
REGISTRY.add(0x0301, routing.SubscriptionRemoved)
REGISTRY.add(0x0302, routing.AdvertisementAdded)
REGISTRY.add(0x0303, routing.AdvertisementRemoved)
REGISTRY.add(0x0304, routing.TablesTold)
REGISTRY.add(0x0305, routing.Installed)
REGISTRY.add(0x0306, routing.NotInstalled)
REGISTRY.add(0x0307, routing.Reached)
REGISTRY.add(0x0308, routing.NotReached)
REGISTRY.add(0x030A, routing.Counted)
REGISTRY.add(0x030B, routing.PublicationsTaken)
REGISTRY.add(0x030C, routing.PublicationsSkipped)
REGISTRY.add(0x030D, routing.TableChanges)
REGISTRY.add(0x030E, routing.TablesTaken)
REGISTRY.add(0x030F, routing.ChangesInstalled)
REGISTRY.add(0x0313, routing.ChangesNotInstalled)
REGISTRY.add(0x0314, routing.TablesBegun)
REGISTRY.add(0x0315, routing.PartTold)
REGISTRY.add(0x0316, repairs.Flush)
REGISTRY.add(0x0317, repairs.Activate)
REGISTRY.add(0x0318, repairs.PathEdit)
REGISTRY.add(0x0319, repairs.PathEdited)
REGISTRY.add(0x031C, repairs.ShiftWord)
REGISTRY.add(0x031A, aired.AiredPublications)
REGISTRY.add(0x031B, radio_flood.FloodedPublications)
REGISTRY.add(0x0320, interests.Interested)
REGISTRY.add(0x0321, interests.InterestAsked)
REGISTRY.add(0x0322, interests.InterestNamed)
REGISTRY.add(0x0323, direct.DirectPublications)
REGISTRY.add(0x0324, direct.DirectTaken)
REGISTRY.add(0x0325, gossiping.GroupOpened)
REGISTRY.add(0x0326, gossiping.GroupClosed)
REGISTRY.add(0x0340, guess.NearFilters)
REGISTRY.add(0x0341, guess.GuessedPublications)

REGISTRY.add(0x0310, destinations.LinkState)
REGISTRY.add(0x0311, destinations.Predicates)
REGISTRY.add(0x0312, destinations.Directed)

REGISTRY.add(0x0401, delivery.Unsubscribe)
REGISTRY.add(0x0402, delivery.Advertise)
REGISTRY.add(0x0403, delivery.Unadvertise)
REGISTRY.add(0x0404, delivery.PublishMessage)
REGISTRY.add(0x0405, delivery.Taken)
REGISTRY.add(0x0406, delivery.Look)
REGISTRY.add(0x0407, delivery.Fetch)
REGISTRY.add(0x0408, delivery.DeliveriesTaken)
REGISTRY.add(0x0409, delivery.PublisherLife)
REGISTRY.add(0x040A, delivery.Subscribe)
REGISTRY.add(0x040B, delivery.Behind)
REGISTRY.add(0x040C, delivery.ReplyMessage)
REGISTRY.add(0x0410, client.Receipt)
REGISTRY.add(0x0411, delivery.Refusal)
REGISTRY.add(0x0412, client.Accepted)
REGISTRY.add(0x0413, client.Declined)
REGISTRY.add(0x0414, delivery.Delivery)
REGISTRY.add(0x0415, client.Missed)
REGISTRY.add(0x0416, client.MarksReply)
REGISTRY.add(0x0417, client.Fetched)
REGISTRY.add(0x0418, client.Namesake)
REGISTRY.add(0x0419, delivery.Beginning)
REGISTRY.add(0x041A, client.Replied)
REGISTRY.add(0x0422, delivery.LookFar)
REGISTRY.add(0x0423, delivery.MarksFar)
REGISTRY.add(0x0424, delivery.FetchFar)
REGISTRY.add(0x0425, delivery.FetchedFar)
REGISTRY.add(0x0426, delivery.Reference)
REGISTRY.add(0x0427, delivery.PackedReferences)
REGISTRY.add(0x0428, delivery.History)
REGISTRY.add(0x0429, delivery.HistoryBegun)
REGISTRY.add(0x042A, delivery.HistoryTaken)
REGISTRY.add(0x042B, delivery.NamesakeFar)
REGISTRY.add(0x042C, delivery.ReplyFar)
REGISTRY.add(0x042D, delivery.ReplySettledFar)

REGISTRY.add(0x0500, inspection.Inspect)
REGISTRY.add(0x0501, inspection.Report)
REGISTRY.add(0x0503, inspection.TransportReport)

REGISTRY.add(0x0600, overlay.TreeOffer)
REGISTRY.add(0x0601, overlay.RenewTree)
REGISTRY.add(0x0602, overlay.Join)
REGISTRY.add(0x0603, overlay.Joined)
REGISTRY.add(0x0604, overlay.Leave)
REGISTRY.add(0x0605, overlay.Left)
REGISTRY.add(0x0606, overlay.Stay)
REGISTRY.add(0x0610, overlay.Linked)
REGISTRY.add(0x0611, overlay.Unlinked)

REGISTRY.add(0x0620, dhtree.FindOwner)
REGISTRY.add(0x0621, dhtree.OwnerFound)
REGISTRY.add(0x0622, dhtree.AskRing)
REGISTRY.add(0x0623, dhtree.RingTold)
REGISTRY.add(0x0624, dhtree.TreeWish)
REGISTRY.add(0x0625, dhtree.TreeUnwish)
REGISTRY.add(0x0626, dhtree.TreeChanged)
REGISTRY.add(0x0640, lstree.ParentRequest)
REGISTRY.add(0x0641, lstree.ParentAccept)
REGISTRY.add(0x0642, lstree.ParentRefuse)
REGISTRY.add(0x0643, lstree.ColourUpdate)
REGISTRY.add(0x0644, lstree.RegionalUpdate)
REGISTRY.add(0x0645, lstree.ChildLeave)
REGISTRY.add(0x0646, lstree.MergeHint)
REGISTRY.add(0x0647, lstree.DepthsSpent)
REGISTRY.add(0x0648, lstree.GlobalUpdate)
REGISTRY.add(0x0649, lstree.ContactPing)
REGISTRY.add(0x064A, lstree.ContactPong)
REGISTRY.add(0x064B, lstree.FindAnother)
REGISTRY.add(0x0650, presence.Beacon)
REGISTRY.add(0x0651, presence.ReachQuestion)
REGISTRY.add(0x0652, presence.ReachAnswer)
REGISTRY.add(0x0680, lpbcast.GroupGossip)
REGISTRY.add(0x0681, lpbcast.GroupPull)
REGISTRY.add(0x0682, lpbcast.GroupPush)
REGISTRY.add(0x0654, rescue.StrandedDigest)
REGISTRY.add(0x0655, rescue.StrandedRequest)
REGISTRY.add(0x0656, rescue.StrandedPublication)
REGISTRY.add(0x0660, witree.RadioHello)
REGISTRY.add(0x0661, witree.GroupHello)
REGISTRY.add(0x0662, witree.RouteRequest)
REGISTRY.add(0x0663, witree.RouteReply)
REGISTRY.add(0x0664, witree.TreeHello)
REGISTRY.add(0x0665, witree.RootHandover)
REGISTRY.add(0x0666, witree.RadioJoin)
REGISTRY.add(0x0667, witree.RadioJoined)
REGISTRY.add(0x0668, witree.RadioRefused)
REGISTRY.add(0x0669, witree.RadioLeave)
REGISTRY.add(0x066A, witree.RootCheck)
REGISTRY.add(0x066B, witree.RootChecked)
REGISTRY.add(0x066C, witree.LinkMended)
REGISTRY.add(0x066D, witree.OtherGroup)

REGISTRY.add(0x0700, carrier.Posted)

REGISTRY.add(0x0800, failover.SiblingHeartbeat)
REGISTRY.add(0x0801, failover.SiblingAnswer)
REGISTRY.add(0x0802, failover.SiblingView)
REGISTRY.add(0x0803, failover.LevelReport)
REGISTRY.add(0x0804, failover.ViewRequest)
REGISTRY.add(0x0805, failover.ViewAnswer)
REGISTRY.add(0x0806, failover.GossipPublications)
REGISTRY.add(0x0807, failover.GossipOffered)
REGISTRY.add(0x0808, failover.GossipAsked)
REGISTRY.add(0x0810, random_views.ViewsShuffled)
REGISTRY.add(0x0811, random_views.RandomGossip)
REGISTRY.add(0x0818, neighbourhood.Nearby)
REGISTRY.add(0x0819, neighbourhood.PublicationsBeyond)

REGISTRY.add(0x0900, coordination.PlanAsked)
REGISTRY.add(0x0901, coordination.PlanAnswered)
REGISTRY.add(0x0902, coordination.Engage)
REGISTRY.add(0x0903, coordination.Engaged)
REGISTRY.add(0x0904, coordination.ActionOrder)
REGISTRY.add(0x0905, coordination.ActionReported)
REGISTRY.add(0x0906, coordination.Disengage)
REGISTRY.add(0x0907, coordination.Disengaged)
REGISTRY.add(0x0910, coordination.Prepare)
REGISTRY.add(0x0911, coordination.Prepared)

REGISTRY.add(0x0A00, coordinates.CoordinateProbe)
REGISTRY.add(0x0A01, coordinates.CoordinateEcho)

REGISTRY.add(0x0B00, feeds.PulsePing)
REGISTRY.add(0x0B01, feeds.PulseEcho)
REGISTRY.add(0x0B10, feeds.ProfileAsked)
REGISTRY.add(0x0B11, feeds.ProfileTold)
REGISTRY.add(0x0B12, feeds.FriendAsked)
REGISTRY.add(0x0B13, feeds.FriendAnswered)
REGISTRY.add(0x0B14, feeds.FriendRemoved)
REGISTRY.add(0x0B20, feeds.TreeJoin)
REGISTRY.add(0x0B21, feeds.JoinDenied)
REGISTRY.add(0x0B22, feeds.JoinForwarded)
REGISTRY.add(0x0B23, feeds.JoinAccepted)
REGISTRY.add(0x0B24, feeds.ChangeParent)
REGISTRY.add(0x0B25, feeds.ParentLeft)
REGISTRY.add(0x0B26, feeds.ParentLet)
REGISTRY.add(0x0B27, feeds.AdoptChild)
REGISTRY.add(0x0B28, feeds.RejoinAt)
REGISTRY.add(0x0B29, feeds.RootHanded)
REGISTRY.add(0x0B30, feeds.FeedUpdate)
REGISTRY.add(0x0B31, feeds.UpdatesAsked)
REGISTRY.add(0x0B32, feeds.UpdatesPulled)
REGISTRY.add(0x0B33, feeds.VoidUpdate)
REGISTRY.add(0x0B34, feeds.ItemSubmitted)
REGISTRY.add(0x0B40, feeds.RootAsked)
REGISTRY.add(0x0B41, feeds.RootTold)
REGISTRY.add(0x0C00, collect.Enlisted)
REGISTRY.add(0x0C01, collect.MembersAsked)
REGISTRY.add(0x0C02, collect.MembersTold)
REGISTRY.add(0x0C03, collect.PathsTold)
REGISTRY.add(0x0C04, collect.PeersAssigned)
REGISTRY.add(0x0C05, collect.PathsMeasured)
REGISTRY.add(0x0C06, collect.ProbeBlock)
REGISTRY.add(0x0C07, collect.ProbeAnswered)
REGISTRY.add(0x0C08, collect.BlastAsked)
REGISTRY.add(0x0C09, collect.FilesAsked)
REGISTRY.add(0x0C0A, collect.FilesTold)
REGISTRY.add(0x0C0B, collect.CollectionOpened)
REGISTRY.add(0x0C0C, collect.CollectionReady)
REGISTRY.add(0x0C0D, collect.CollectRequest)
REGISTRY.add(0x0C0E, collect.Directive)
REGISTRY.add(0x0C0F, collect.BlockSent)
REGISTRY.add(0x0C10, collect.BlockAck)
REGISTRY.add(0x0C11, collect.BlockRefused)
REGISTRY.add(0x0C12, collect.StatusRequest)
REGISTRY.add(0x0C13, collect.StatusUpdate)
REGISTRY.add(0x0C14, collect.ReplicatedBlocks)
REGISTRY.add(0x0C15, collect.ReplicasTaken)
REGISTRY.add(0x0C16, collect.HoldingsAsked)
REGISTRY.add(0x0C17, collect.HoldingsTold)
REGISTRY.add(0x0C18, collect.BlocksReclaimed)
REGISTRY.add(0x0C19, collect.BlocksLost)
REGISTRY.add(0x0C1A, collect.FileFailed)
REGISTRY.add(0x0C1B, collect.FileDigestAsked)
REGISTRY.add(0x0C1C, collect.FileDigestTold)
REGISTRY.add(0x0C1D, collect.TransferComplete)

REGISTRY.add(0x0F00, ping.Probe)
REGISTRY.add(0x0F01, ping.Echo)

REGISTRY.add(0x0F10, gossip.Digest)
REGISTRY.add(0x0F11, gossip.GossipRequest)
REGISTRY.add(
    0x0F12,
    gossip.GossipRepair,
    encode=lambda repair: encode_event(repair.event),
    decode=lambda data: gossip.GossipRepair(decode_event(data)),
)

encode = REGISTRY.encode
"""The bytes of a message; UsageError if it has none."""

decode = REGISTRY.decode
"""The message of these bytes; BadMessage if they are none."""
