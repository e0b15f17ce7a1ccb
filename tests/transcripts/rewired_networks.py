"""The golden scenarios of dynamic-topologies.md 3.15, told by what dispatchers say to each other. What a new link takes
to be there is left out."""

from tests.transcripts.broker_networks import RECORDS_MAX, shown
from tests.unit.test_golden_repairs import COUNTED, SCENARIOS, played
from tests.worlds.rewired import SET_UP
from tidings.protocols.routing.params import RepairName
from tidings.trace.record import Record
from tidings.trace.writers import RingBuffer


def told(name: str, repair: RepairName) -> list[Record]:
    trace = RingBuffer(RECORDS_MAX)
    played(SCENARIOS[name], repair, trace)
    return [record for record in shown(trace, SET_UP) if record.message in COUNTED and record.kind == "send"]


def timed_repair_of_a_line() -> list[Record]:
    """S1: 1 - 2 - 3 - 4 - 5 in a row, and 1 wants something. The link 1 - 2 is replaced by 1 - 5 (TDU): 5 tells 1 what
    1 itself wants, since it cannot know; 0.15 s after the break 2 takes back what 1 wanted, and so on to 1."""
    return told("S1", "timed")


def informed_repair() -> list[Record]:
    """S2, figures 5.4 and 6.4: s - a - c, a - b - d - e, and s wants something. The link a - b is replaced by c - d
    (ILA): b tells d which filter it has from a alone, so d does not tell it to c, and two filters told are enough."""
    return told("S2", "informed")


def repair_along_a_path() -> list[Record]:
    """S3, figure 5.5: a - e - f - c, a - b - g - d, and e and d want the same. The link a - b is replaced by c - d
    (RP): the edits walk from a by way of c and d to b, each broker of the head answers, and b sends word back."""
    return told("S3", "path")


def notified_repair_of_a_star() -> list[Record]:
    """S4: a star of c and 1 to 4; 1 wants p and q, 2 wants p. The link 1 - c is replaced by 1 - 2 (NDU): news that the
    new link has made up for the old one comes to c behind the filters, and c takes back at once."""
    return told("S4", "notified")
