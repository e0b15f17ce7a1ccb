"""Every bound on what a stranger may send us, in one place.

A bound is a promise to the rest of the program: nothing longer, deeper or larger ever reaches it. Going over one is
refused with a sentence that names the bound, the place and the value. Sizes are in UTF-8 bytes where the name says
bytes, in characters where it says chars.
"""

ATTRIBUTES_MAX = 128
"""Attributes of one event, the CloudEvents context attributes included."""

NAME_CHARS_MAX = 128
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
