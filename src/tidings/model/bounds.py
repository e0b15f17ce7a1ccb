"""Every bound on what a stranger may send us, in one place.

A bound is a promise to the rest of the program: nothing longer, deeper or larger ever reaches it. Going over one is
refused with a sentence that names the bound, the place and the value. Sizes are in UTF-8 bytes where the name says
bytes, in characters where it says chars.
"""

ATTRIBUTES_MAX = 128
"""Attributes of one event, the CloudEvents context attributes included."""

ATTRIBUTE_NAME_CHARS_MAX = 128
"""Length of an attribute name (names are ASCII, so characters are bytes)."""

STRING_BYTES_MAX = 64 * 1024
"""Length of a string value in UTF-8."""

PAYLOAD_BYTES_MAX = 1024 * 1024
"""Length of an event's opaque payload."""

INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1
"""Integers are 64-bit two's complement."""

NUMBER_TEXT_CHARS_MAX = 64
"""A longer string is never read as a number, so that reading one costs a bounded time."""

FILTER_TEXT_BYTES_MAX = 4 * 1024
"""Length of a filter in text form."""

EXPRESSION_DEPTH_MAX = 64
"""Nesting of an expression; AND and OR chains of any length count as one level."""

CONSTRAINTS_MAX = 64
"""Constraints of a normal form, over all its conjunctions. Beyond it a filter keeps its exact expression
and is routed by a wider approximation."""

AUTOMATON_STATES_MAX = 4096
"""States visited when two text patterns are compared; beyond it the answer is the safe one."""

FILTER_TOKENS_MAX = 512
"""Words and signs of a filter in text form, so that no text takes over 10 ms to accept or reject."""

# Words that any message carries.

NAME_CHARS_MAX = 255
"""Length of a name that a message carries: a node, a capability, a timer."""

LIFE_CHARS_MAX = 16
"""Length of the word that tells one life of a client from another."""

REPLY_WORD_CHARS = 32
"""Length of the word by which a reply finds the event that it answers: 128 bits as hexadecimal digits."""

TEXT_CHARS_MAX = 1024
"""Length of a sentence that a message carries, such as the reason of a refusal."""

CHANGES_PACKED_MAX = 32
"""Changes of routing tables, or answers to them, in one message: a broker carries them out in one step, which must not
take long."""

TABLE_BUCKETS = 4096
"""Into which a routing table is cut."""

TABLE_SUMMARY_BYTES_MAX = 8 * TABLE_BUCKETS
"""A digest for each of them."""

TABLE_DIGEST_BYTES = 8

PATTERN_DIGESTS_MAX = 64 * 1024
"""Filters that a repair names by their digests in one message; further ones are told as if it had not been named."""

PATTERN_DIGESTS_BYTES_MAX = PATTERN_DIGESTS_MAX * TABLE_DIGEST_BYTES

PATH_BROKERS_MAX = 256
"""Brokers between a lost link and the one that replaces it."""

PATH_FILTERS_MAX = 4096
"""Filters that a repair moves along such a path; where there are more, it waits instead."""

PATH_FILTERS_BYTES_MAX = 256 * 1024
"""The same in bytes: it names each of them twice at most, and has to fit a frame."""

WATCHED_LOSSES_MAX, WATCHED_FILTERS_MAX = 16, 64
"""Lost neighbours, and filters of each, of which a repair sees when they come back from elsewhere."""

STRANDED_NAMES_MAX = 1024
"""Publications that a message of the epidemic names, and that one node holds for others."""

STRANDED_SECONDS_MAX = 3600.0
"""For which they may be held."""

FLUSHES_REMEMBERED_MAX = 1024
"""Messages of repairs that are passed on to everybody, and by each once, as long as they are remembered."""

BROKERS_NAMED_MAX = 100
"""Brokers that an acknowledgement or a receipt names; further ones are only counted."""

ACTION_BROKERS_MAX = 1000
"""Neighbours that a broker names when it takes part in a plan."""

PLAN_BYTES_MAX = 512 * 1024
"""A plan that a client asks for, as JSON: some 5,000 actions."""

ADDRESS_CHARS_MAX = 300
"""A host name of 255 characters, a colon and a port fit."""

TIME_OF_DAY_MAX = 2.0**53
"""Seconds since 1970 that a token or a message may name."""

# Frames and the handshake.

FRAME_BYTES_MAX = 1024 * 1024
"""Body of any frame."""

OPENING_BYTES_MAX = 4 * 1024
"""Body of the first frame of a stream, the handshake."""

MESSAGE_BYTES_MAX = FRAME_BYTES_MAX
"""A message is the body of one frame."""

CAPABILITIES_MAX = 32

CAPABILITY_CHARS_MAX = 64

EPOCH_MAX = 2**53
"""The largest epoch that can be proposed: nobody gets there by counting, so who does is not to be believed."""

DIGEST_BYTES = 8
"""Of a message that could not be read."""

# Publications.

BATCH_BYTES_MAX = 960 * 1024
"""Heads and payloads of one batch together, with what precedes each: a frame less room for numbers and names."""

PIECE_OVERHEAD_BYTES_MAX = 2 * 5
"""What precedes a head and a payload in a batch: for each a mark and its length."""

PUBLICATION_BYTES_MAX = BATCH_BYTES_MAX - PIECE_OVERHEAD_BYTES_MAX
"""One encoded event: as much as fits a batch alone."""

ATTRIBUTES_BYTES_MAX = 256 * 1024
"""The attributes of one event, encoded. They are what filters read and are unpacked at every hop; one wide character
makes Python keep a string four times as large as its bytes. What is large belongs into the payload."""

PUBLICATIONS_MAX = 4096
"""Publications in one batch."""

WIDE_COLUMN_BYTES_MAX, NARROW_COLUMN_BYTES_MAX = 8 * PUBLICATIONS_MAX, 4 * PUBLICATIONS_MAX
"""An array of a page of history: of numbers or times, and of lengths."""

# Who comes in.

CREDENTIALS_BYTES_MAX = 4096

NONCE_BYTES = 32

SIGNATURE_BYTES = 64

WAYS_OUT_MAX = 8
"""Brokers that a client is told of where it could go, and of which it keeps that many."""

PUBLIC_KEY_BYTES = 32

# Delivery, history and what is asked of it.

REFERENCE_HOPS_MAX = 1000
"""Brokers on the way from a subscriber's broker to a publisher's, as a question for history writes them down."""

PATH_BYTES_MAX = 32 * 1024
"""Their names together, so that an answer with the largest publication and its way back fits a frame."""

SUBSCRIPTIONS_MATCHED_MAX = 1000
"""Subscriptions of one client that one publication may match: all it may have."""

EXTENTS_MAX = 16
"""Extents that a broker names of what it stores, or lacks, of a publisher."""

PUBLISHERS_MAX = 4096
"""Publishers whose position a subscription may name."""

QUESTIONS_MAX = 512
"""Questions for history in one message."""

MARKS_MAX = 300
"""Publishers whose marks one message carries, so that it fits a frame."""

OFFERS_MAX = 64
"""Filters of advertisements that an answer names."""

BROKERS_ASKED_MAX = 64
"""Brokers that answered, and those that did not, that an answer names."""

# Routing by destination.

NEIGHBOURS_MAX = 256
"""Links of one broker."""

PREDICATE_ROWS_BYTES_MAX = 512 * 1024
"""All Bloom rows of one broker together."""

DESTINATIONS_MAX = 100
"""Brokers that one message is for. Their names fit into a frame beside the largest batch."""

DESTINATION_HOPS_MAX = 255

BLOOM_BITS_MAX = 64 * 1024
"""Bits of a row, as its sender says."""

VERSION_MAX = 2**62
"""No broker counts so far; somebody who claims it is not believed."""

# Brokers on a ring.

RING_PATH_MAX = 64
"""Brokers that a search passes: with fingers it is a logarithm of how many there are."""

SUCCESSORS_MAX = 16
"""Those that a broker says to stand behind it."""

BACKLOG_BYTES_MAX = 4 * 1024 * 1024
"""What one neighbour told that waits to be carried out; beyond it the oldest is carried out at once."""

# A tree that finds itself.

ANCESTORS_MAX = 8
"""Brokers above another one that a message names."""

SIBLINGS_MAX = 32
"""Brokers beside another one that a message names; of more, some."""

CONTACTS_MAX = 16
"""Brokers anywhere in the tree that a message names, and those that one can be told to begin with."""

COLOUR_LENGTH_MAX = 2**53
"""Roots that a tree can have had."""

COLOUR_STEP_MAX = 2**20
"""By how many roots the tree of a neighbour can be ahead of ours. Whoever claims more is not believed, so that nobody
can use up the numbers there are."""

DEPTH_MAX = 1e9
"""Depth of a broker in its tree; those of neighbours differ by about one."""

# Who is there.

BYSTANDERS_MAX = 16
"""Brokers that are asked about one that is silent."""

INQUIRIES_MAX = 64
"""Brokers that one looks for at the same time because others asked."""

INQUIRERS_MAX = 16
"""Of those who ask about the same one."""

# Gossip around failed brokers.

VECTOR_ENTRIES_MAX = 256
"""Advertisements of which a broker tells how many subscriptions it counts."""

VIEW_MEMBERS_MAX = 32
"""Brokers in a view that a message carries."""

FAILURES_TOLD_MAX = 512
"""Brokers that a message says to have failed, or to be back."""

VIEW_LEVELS_MAX = 16
"""Levels of the tree of which a message tells."""

LEVEL_NAMES_MAX = 256
"""Brokers of one level in a branch of the tree, as far as they are named; of more, some."""

CYCLE_AHEAD_MAX = 10_000
"""By how many cycles another broker can be ahead of us. Whoever claims more is not believed, so that nobody can use up
the numbers there are."""

GOSSIP_HOPS_MAX = 8
"""Brokers that a publication can pass one after the other off the tree."""

TREE_DEPTH_MAX = 2**31
"""Links between a broker and the root of its tree, as it says."""

NEARBY_HOPS_MAX = VIEW_LEVELS_MAX + 1

NEARBY_MAX = 4096
"""Brokers around another one of which a message tells, and filters of each."""

NEARBY_FILTERS_MAX = 1024

# A tree over radio.

RADIO_DISTANCE_MAX = 255
"""Links between a broker and the leader of its tree."""

RADIO_PATH_MAX = 64
"""Brokers on a path along which something travels link by link."""

AIRED_BYTES_MAX = 900
"""Heads and payloads of publications that are said on the air: with names and numbers they fit a datagram."""

# Inspection.

REPORT_ROWS_BYTES_MAX = 256 * 1024
"""The rows of one report. A single row is always shorter: a filter of 4 KiB is the largest thing in one."""

TRANSPORT_ROWS_MAX = 64

TRANSPORT_REPORT_BYTES_MAX = 32 * 1024
"""What a client tells of its transport."""

# The transport's own headers and messages.

RECORD_MAX = 255
"""Entries of a record: its count is one byte."""

RATE_MAX = 1e7
"""Events a second that anybody may claim."""

TIME_MAX_US = 2**53
"""Microseconds that a clock may show: 285 years, and what a float of seconds can tell apart."""

FLOWS_MAX = 255
"""Flows named by one event, or by one feedback."""

ASKED_FILTER_BYTES_MAX = 4096
"""Text of a filter inside a feedback."""

# The pipeline.

COUNTED_BROKERS_MAX = 1000
"""Brokers whose counters a stream follows: they stand in each of its positions."""

# The teaching protocols.

GOSSIP_KEY_CHARS_MAX = 256
"""Length of an event's source, and of its id, that a digest can carry."""

GOSSIP_KEYS_MAX = 128
"""Names in one message."""

TABLE_PART_MAX = TABLE_BUCKETS - 1
"""The last part of a table that is cut into one for each bucket."""

# Groups of brokers, and popularity.

FORECAST_ROWS_MAX = 1_000_000
"""Rows of a forecast of rates that a broker reads."""

GROUP_MEMBERS_MAX = 32
"""Members of a group that a message names, and as many that left it."""

GROUP_DIGEST_MAX = 1024
"""Publications that a digest names."""

GROUPS_MAX = 10_000
"""Groups that a broker is in."""

INTEREST_FILTERS_MAX = 64
"""Filters of one broker in a message that names who wants something."""

# Feeds without servers.

PLACE_DIMENSIONS_MAX = 8
"""Of the space in which nodes have places."""

PLACE_ERROR_MAX = 1e6
"""Estimate of how wrong a place is; anything above 1 is a guess already."""

FEED_URL_CHARS_MAX = 2048
"""Length of the address of a feed."""

PROFILE_BYTES = 128
"""The interests of a peer, as a Bloom filter."""

FEED_FRIENDS_MAX = 64
"""Friends that a peer names in one message."""

FEED_CHAIN_MAX = 64
"""Ancestors of a peer in the tree of a feed, and how often a request to join is sent on."""

FEED_TREES_MAX = 1000
"""Feeds that one message speaks of, and that a peer reads."""

FEED_PAYLOAD_BYTES_MAX = 256 * 1024
"""One item of a feed as it travels."""

FEED_PULL_MAX = 128
"""Updates in one answer, and numbers in one question."""

FEED_PULL_BYTES_MAX = 768 * 1024
"""Payloads in one answer, together, beyond the first: an answer fits a frame."""

FEED_ROOTS_MAX = 10_000
"""Feeds of which a peer keeps for others who publishes them."""

FEED_NEAREST_MAX = 16
"""Peers that are named as nearer to a key."""

# Collections of files.

BLOCK_BYTES_MIN, BLOCK_BYTES_MAX = 1024, 512 * 1024
"""Of a file in one message."""

COLLECTION_BLOCKS_MAX = 2**22
"""Of one source: a terabyte in blocks of 256 KiB. Each is a number that is kept."""

COLLECTION_SUM_MAX = 2**24
"""Of all sources of a collection together."""

FILES_MAX = 100_000
"""That one source gives to one collection."""

FILES_TOLD_MAX = 256
"""In one message; a list of files takes as many messages as it needs."""

PATH_CHARS_MAX = 1024
"""Of the name of a file, folders included."""

FILE_BYTES_MAX = 2**50

RANGES_MAX = 4096
"""Runs of numbers in one message; longer lists take several."""

COLLECTORS_MAX = 1000
"""Hosts of one collection."""

PATTERNS_MAX = 64
"""Patterns of file names in one request."""

BITS_PER_SECOND_MAX = 1e15

COLLECTIONS_MAX = 64
"""Under way at one host at the same time."""

DIGEST_MIN, DIGEST_MAX = INTEGER_MIN, INTEGER_MAX
"""The 64 bits of a digest as a signed number."""
