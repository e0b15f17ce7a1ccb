"""A search for one string that satisfies several conditions at once.

The conditions are LIKE patterns that must match, patterns that must not, and a range `low <= s < high`. Every question
about sets of strings ends here: is this set empty, does that one cover it (or is there a member outside), do they meet.

**States.** Each condition is a small automaton whose states are numbered; the states reached so far are bits of one
integer, the conditions side by side. A pattern has a state for each place between its characters; a character moves
bit i to i + 1 where the pattern has that character or `_`, and a place with `%` also keeps its bit. All conditions
move in one shift. Once a `%` is reached, the places before it no longer matter: whatever they still lead to, it does.
A range end has a state for "equal so far" after each of its characters and a last one for "decided, and inside".

**Search.** Breadth first from the empty string, so the first string found is a shortest one. A pattern that must match
and has no bit left ends a branch, as does a pattern that must not match and will match whatever follows.
The characters tried in a state are those that some bit waits for, and one more for all others; while a range end is
undecided, one for each stretch between the characters it is compared with.

**Bounds.** Sets of states may be exponentially many (`%a_____` has 64). The search stops after so many states or so
much work, or where the work of everything together has a limit that is reached (`model/work.py`), and says that it did:
then nothing found does not mean that there is nothing.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidings.model.bounds import AUTOMATON_STATES_MAX
from tidings.model.sets.patterns import Parts, escape, parts_of
from tidings.model.work import WORK

WORK_PER_STATE_MAX = 16
"""Work allowed for each state allowed. A step from a state by a character counts as one, and one more for each pattern
and for each `WORD_PLACES` places; two to four steps a state are usual."""

WORD_PLACES = 512

STEP_UNITS = 40
"""What each unit of this work counts among all other work."""

READABLE = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 !-./:;=?@~"
"""Characters that stand for all the others, the first that fits."""

SURROGATES = range(0xD800, 0xE000)
CHARACTERS_END = 0x110000


class WitnessSearch(NamedTuple):
    """`text` satisfies all conditions; if it is None and the search `ended`, no string does."""

    text: str | None
    ended: bool
    states: int


class Automaton:
    """The conditions side by side. Bits of `waiting` are places that wait for a character of their own."""

    def __init__(self, likes: Sequence[str], unlikes: Sequence[str], low: str, high: str | None) -> None:
        self.start = self.loops = self.wild = self.waiting = 0
        self.forbidden = self.hopeless = 0
        self.required: list[tuple[int, int]] = []  # all bits of a condition that must hold, those where it holds
        self.dominated: dict[int, int] = {}
        self.moves: dict[str, int] = {}
        self.characters: list[str] = []
        for pattern in likes:
            whole, last = self.add_pattern(parts_of(pattern))
            self.required.append((whole, last))
        for pattern in unlikes:
            _, last = self.add_pattern(parts_of(pattern))
            self.forbidden |= last
            self.hopeless |= last & self.loops
        self.low, self.low_at, self.low_decided = low, len(self.characters), 0
        if low:
            whole, self.low_decided = self.add_path(low)
            self.required.append((whole, self.low_decided))
        self.high, self.high_at, self.high_decided = high or "", len(self.characters), 0
        if high is not None:
            whole, self.high_decided = self.add_path(high)
            self.moves[high[-1]] &= ~(self.high_decided >> 1)  # all of `high` is already too far
            self.required.append((whole, whole))
        for character in self.moves:
            self.moves[character] |= self.wild

    def add_pattern(self, parts: Parts) -> tuple[int, int]:
        """All bits of the pattern, and the last one."""
        begin = len(self.characters)
        self.start |= 1 << begin
        for gap, literal in zip(parts.gaps, (*parts.literals, ""), strict=True):
            for _ in range(gap.ones):
                self.wild |= 1 << len(self.characters)
                self.characters.append("")
            if gap.run:
                place = 1 << len(self.characters)
                self.loops |= place
                self.dominated[place] = place - (1 << begin)
            for character in literal:
                self.wait_for(character)
        self.characters.append("")
        last = 1 << len(self.characters) - 1
        return (last << 1) - (1 << begin), last

    def add_path(self, text: str) -> tuple[int, int]:
        begin = len(self.characters)
        self.start |= 1 << begin
        for character in text:
            self.wait_for(character)
        self.characters.append("")
        decided = 1 << len(self.characters) - 1
        self.loops |= decided
        return (decided << 1) - (1 << begin), decided

    def wait_for(self, character: str) -> None:
        place = 1 << len(self.characters)
        self.moves[character] = self.moves.get(character, 0) | place
        self.waiting |= place
        self.characters.append(character)

    def accepts(self, state: int) -> bool:
        return not state & self.forbidden and all(state & holds for _, holds in self.required)

    def is_dead(self, state: int) -> bool:
        return bool(state & self.hopeless) or any(not state & whole for whole, _ in self.required)

    def successors(self, state: int) -> Iterator[tuple[str, int]]:
        """A character of each kind that this state tells apart, and the state it leads to."""
        waited = list(dict.fromkeys(self.characters[place] for place in places_of(state & self.waiting)))
        low_character = self.character_at(state, self.low_at, self.low)
        high_character = self.character_at(state, self.high_at, self.high)
        kept = state & self.loops
        for character in (*waited, *others(waited, low_character, high_character)):
            after = (state & self.moves.get(character, self.wild)) << 1 | kept
            if low_character and character > low_character:
                after |= self.low_decided
            if high_character and character < high_character:
                after |= self.high_decided
            for place in places_of(after & self.loops):
                after &= ~self.dominated.get(1 << place, 0)
            yield character, after

    def character_at(self, state: int, begin: int, text: str) -> str:
        """The character of the range end that comes next, or '' if that end is decided."""
        equal = state >> begin & ((1 << len(text)) - 1)
        return text[equal.bit_length() - 1] if equal else ""


def places_of(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def others(waited: Sequence[str], low_character: str, high_character: str) -> Iterator[str]:
    """One character, not among those waited for, from each stretch that the range ends tell apart."""
    cuts = sorted({ord(character) for character in (low_character, high_character) if character})
    for begin, end in zip([-1, *cuts], [*cuts, CHARACTERS_END], strict=True):
        character = some_character(begin + 1, end, waited)
        if character:
            yield character


def some_character(begin: int, end: int, taken: Sequence[str]) -> str:
    """A character from this stretch of code points, readable if possible; '' if all are taken."""
    for character in READABLE:
        if begin <= ord(character) < end and character not in taken:
            return character
    for code in range(begin, min(end, begin + len(taken) + 1)):
        if code not in SURROGATES and chr(code) not in taken:
            return chr(code)
    for code in range(max(begin, SURROGATES.stop), min(end, SURROGATES.stop + len(taken) + 1)):
        if chr(code) not in taken:
            return chr(code)
    return ""


def find_text(
    likes: Sequence[str] = (),
    unlikes: Sequence[str] = (),
    exclude: Sequence[str] = (),
    low: str = "",
    high: str | None = None,
    states_max: int = AUTOMATON_STATES_MAX,
) -> WitnessSearch:
    """A shortest string that matches all of `likes`, none of `unlikes`, is none of `exclude` and lies in the range."""
    if high == "":
        return WitnessSearch(None, True, 0)
    automaton = Automaton(likes, (*unlikes, *map(escape, exclude)), low, high)
    state = automaton.start
    came_from: dict[int, tuple[int, str]] = {state: (-1, "")}
    if automaton.accepts(state):
        return WitnessSearch("", True, 1)
    step_work = 1 + len(likes) + len(unlikes) + len(automaton.characters) // WORD_PLACES
    queue, work_left = [] if automaton.is_dead(state) else [state], WORK_PER_STATE_MAX * states_max
    for state in queue:
        for character, after in automaton.successors(state):
            work_left -= step_work
            WORK.units += STEP_UNITS * step_work
            if len(came_from) >= states_max or work_left < 0 or WORK.is_over():
                return WitnessSearch(None, False, len(came_from))
            if after in came_from or automaton.is_dead(after):
                continue
            came_from[after] = (state, character)
            if automaton.accepts(after):
                return WitnessSearch(path_to(after, came_from), True, len(came_from))
            queue.append(after)
    return WitnessSearch(None, True, len(came_from))


def path_to(state: int, came_from: dict[int, tuple[int, str]]) -> str:
    characters: list[str] = []
    while True:
        state, character = came_from[state]
        if state < 0:
            return "".join(reversed(characters))
        characters.append(character)
