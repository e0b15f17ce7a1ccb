"""The transport as its sources have it, where ours does more by default: Bloom rows of 128 bits that say nothing about
ranges."""

from tidings.matching.bloom import BloomProfile
from tidings.protocols.transport.params import TransportParams

AS_PUBLISHED = TransportParams(profile=BloomProfile(bits=128), tells_ranges=False)
