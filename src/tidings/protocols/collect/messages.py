"""What hosts say to each other about collections.

    directory    Enlisted, MembersAsked, MembersTold, PeersAssigned, PathsMeasured
    measurement  ProbeBlock, ProbeAnswered, BlastAsked
    opening      FilesAsked, FilesTold, CollectionOpened, CollectionReady, CollectRequest
    running      Directive, BlockSent, BlockAck, BlockRefused, StatusRequest, StatusUpdate,
                 ReplicatedBlocks, ReplicasTaken
    trouble      HoldingsAsked, HoldingsTold, BlocksReclaimed, BlocksLost, FileFailed
    end          FileDigestAsked, FileDigestTold, TransferComplete

A block is named by its origin and a number that the origin counts (`seq`); lists of numbers are runs, (first, count).
"""

from typing import Annotated

import msgspec

from tidings.machine.message import Contact, Count, Message, Name, OptionalName, Text
from tidings.model.bounds import (
    BITS_PER_SECOND_MAX,
    BLOCK_BYTES_MAX,
    BLOCK_BYTES_MIN,
    COLLECTION_BLOCKS_MAX,
    COLLECTION_SUM_MAX,
    COLLECTORS_MAX,
    DIGEST_MAX,
    DIGEST_MIN,
    FILE_BYTES_MAX,
    FILES_TOLD_MAX,
    PATH_CHARS_MAX,
    PATTERNS_MAX,
    RANGES_MAX,
)

JobName = Name
Blocks = Annotated[int, msgspec.Meta(ge=0, le=COLLECTION_BLOCKS_MAX)]
SumOfBlocks = Annotated[int, msgspec.Meta(ge=0, le=COLLECTION_SUM_MAX)]
BitRate = Annotated[float, msgspec.Meta(ge=0, le=BITS_PER_SECOND_MAX)]
FileName = Annotated[str, msgspec.Meta(min_length=1, max_length=PATH_CHARS_MAX)]
FileNumber = Annotated[int, msgspec.Meta(ge=0, le=COLLECTION_BLOCKS_MAX)]
Run = tuple[Blocks, Blocks]
"""The first number, and how many follow each other from it on."""
Runs = Annotated[tuple[Run, ...], msgspec.Meta(max_length=RANGES_MAX)]
BlockBytes = Annotated[bytes, msgspec.Meta(max_length=BLOCK_BYTES_MAX)]
BlockSize = Annotated[int, msgspec.Meta(ge=BLOCK_BYTES_MIN, le=BLOCK_BYTES_MAX)]
Counts = Annotated[tuple[tuple[Name, Blocks], ...], msgspec.Meta(max_length=COLLECTORS_MAX)]
BitRates = Annotated[tuple[tuple[Name, BitRate], ...], msgspec.Meta(max_length=COLLECTORS_MAX)]
Contacts = Annotated[tuple[Contact, ...], msgspec.Meta(max_length=COLLECTORS_MAX)]
Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=COLLECTORS_MAX)]
Hash64 = Annotated[int, msgspec.Meta(ge=DIGEST_MIN, le=DIGEST_MAX)]


class SharedFile(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A file as its source lists it. `changed_ns` is when it was last changed, by the source's clock."""

    path: FileName
    size_bytes: Annotated[int, msgspec.Meta(ge=0, le=FILE_BYTES_MAX)]
    changed_ns: Count = 0


SharedFiles = Annotated[tuple[SharedFile, ...], msgspec.Meta(max_length=FILES_TOLD_MAX)]


class Enlisted(Message, frozen=True):
    """I am here, this is where I listen and what my access carries; 0 is not known."""

    contact: Contact
    has_files: bool
    up_bps: BitRate = 0.0
    down_bps: BitRate = 0.0


class MembersAsked(Message, frozen=True):
    pass


class MembersTold(Message, frozen=True):
    """All who have enlisted, with their access and the paths that were measured."""

    members: Annotated[tuple[Enlisted, ...], msgspec.Meta(max_length=COLLECTORS_MAX)]


class PathsTold(Message, frozen=True):
    """The rates that `sender` measured towards its peers."""

    sender: Name
    rates: BitRates


class PeersAssigned(Message, frozen=True):
    peers: Contacts


class PathsMeasured(Message, frozen=True):
    """A round of measurements is over: bits a second to each peer, and of our access where it is known."""

    rates: BitRates
    up_bps: BitRate = 0.0
    down_bps: BitRate = 0.0


class ProbeBlock(Message, frozen=True):
    """One of `count`, to be timed; `nonce` tells the trains of a sender apart. With a count of 0 it is part of a
    blast."""

    nonce: Count
    place: Annotated[int, msgspec.Meta(ge=0, le=255)]
    count: Annotated[int, msgspec.Meta(ge=0, le=255)]
    filler: BlockBytes


class ProbeAnswered(Message, frozen=True):
    nonce: Count
    rate_bps: BitRate


class BlastAsked(Message, frozen=True):
    """Send me as much as you can, for so many seconds."""

    seconds: Annotated[float, msgspec.Meta(gt=0, le=255)]


class FilesAsked(Message, frozen=True):
    job: JobName
    patterns: Annotated[tuple[FileName, ...], msgspec.Meta(min_length=1, max_length=PATTERNS_MAX)]


class FilesTold(Message, frozen=True):
    """The files that match, in the order of their names; several messages, the last one says so."""

    job: JobName
    files: SharedFiles
    is_last: bool
    refusal: Text = ""


class CollectionOpened(Message, frozen=True):
    """From the sink to everybody who takes part. A source is told its files, in several messages where there are many
    (`begin` is the number of the first one), and which blocks the sink has already."""

    job: JobName
    coordinator: Name
    block_bytes: BlockSize
    contacts: Contacts
    begin: FileNumber
    files: SharedFiles
    is_last: bool
    has: Runs = ()
    is_again: bool = False
    """It was opened before: who has forgotten it sends nothing until blocks are reclaimed."""


class CollectionReady(Message, frozen=True):
    job: JobName
    blocks: Blocks
    refusal: Text = ""


class CollectRequest(Message, frozen=True):
    """From the sink to the coordinator: bring these blocks to me. `generation` counts coordinators."""

    job: JobName
    block_bytes: BlockSize
    sources: Counts
    missing: Counts
    """How many of each are not at the sink yet."""
    helpers: Names
    """Who relays without having files."""
    generation: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0
    strategy: Annotated[str, msgspec.Meta(max_length=16)] = "planned"
    pool: Blocks = 0
    """Sources that send at the same time where it is direct; 0 is all."""


class DirectedShare(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """`blocks` to this receiver, planned at so many blocks a second."""

    receiver: Name
    blocks: SumOfBlocks
    rate: BitRate


class Directive(Message, frozen=True):
    """From the coordinator: what to send to whom from now on, in place of whatever was said before."""

    job: JobName
    plan: Count
    shares: Annotated[tuple[DirectedShare, ...], msgspec.Meta(max_length=COLLECTORS_MAX)]
    is_final: bool
    """All is to be there before the next plan: what is left over goes to the sink."""
    handbacks: Counts = ()
    """To a holder: of the blocks of that origin it hands back so many."""
    horizon: Count = 0
    """Seconds that the plan takes."""


class BlockSent(Message, frozen=True):
    job: JobName
    origin: Name
    seq: Blocks
    digest: Hash64
    """xxh3 of the bytes, by the origin."""
    data: BlockBytes


class BlockAck(Message, frozen=True):
    """It is stored here, and we answer for it from now on."""

    job: JobName
    origin: Name
    seq: Blocks


class BlockRefused(Message, frozen=True):
    job: JobName
    origin: Name
    seq: Blocks
    reason: Text


class StatusRequest(Message, frozen=True):
    job: JobName
    plan: Count


class StatusUpdate(Message, frozen=True):
    """How many blocks of each origin we answer for and have not sent, and the rates in blocks a second that were
    reached since the plan began."""

    job: JobName
    plan: Count
    held: Counts
    rates: BitRates
    unreachable: Names = ()
    up_rate: BitRate = 0.0
    """The highest, of all that was sent."""
    down_rate: BitRate = 0.0


class ReplicatedBlocks(Message, frozen=True):
    """To the origin: send these of your blocks yourself, we do not."""

    job: JobName
    runs: Runs


class ReplicasTaken(Message, frozen=True):
    """The origin answers for them again."""

    job: JobName
    runs: Runs


class HoldingsAsked(Message, frozen=True):
    job: JobName
    round: Count


class HoldingsTold(Message, frozen=True):
    """Which blocks of this origin are here: those we answer for (at the sink, those that arrived), and those kept
    besides; the last message of all says so."""

    job: JobName
    round: Count
    origin: OptionalName
    runs: Runs
    spare: Runs
    is_last: bool


class BlocksReclaimed(Message, frozen=True):
    """From the coordinator: nobody answers for these; you have them, send them."""

    job: JobName
    origin: Name
    runs: Runs


class BlocksLost(Message, frozen=True):
    """From the coordinator to the sink: their origin is gone, and nobody has them."""

    job: JobName
    origin: Name
    runs: Runs


class FileFailed(Message, frozen=True):
    """From a source to the sink: this file cannot be sent any more."""

    job: JobName
    file: FileNumber
    reason: Text


class FileDigestAsked(Message, frozen=True):
    job: JobName
    file: FileNumber


class FileDigestTold(Message, frozen=True):
    job: JobName
    file: FileNumber
    sha256: Annotated[bytes, msgspec.Meta(max_length=32)]
    problem: Text = ""


class TransferComplete(Message, frozen=True):
    """From the sink to all: it is over."""

    job: JobName
    reason: Text = ""
    """Why it was given up; empty where all is there."""
