"""Memory of one matcher, measured in a process that does nothing else: `python -m bench.memory MATCHER FILTERS RATE`.

The figure is the growth of resident memory from just before the filters are added until they have been added and a
batch of events was matched. The `Filter` objects exist before and belong to the caller, as a subscription table owns
them.
"""

import ctypes
import gc
import json
import os
import sys
from pathlib import Path

from bench.matchers import Prepared, build, contenders
from bench.workload import make_workload


def resident_bytes() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    matcher, filters, rate = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    prepared = Prepared(make_workload(filters, rate, events=512))
    small = Prepared(make_workload(1000, rate, events=512))
    for contender in contenders(matcher, build(matcher, small), small):  # compiles what has to be compiled
        contender.run(0.0, 0)
    prepared.make_all()
    before = resident_bytes()
    table = build(matcher, prepared)
    for contender in contenders(matcher, table, prepared):
        contender.run(0.0, 0)
    print(json.dumps({"bytes_per_filter": (resident_bytes() - before) / filters}))


if __name__ == "__main__":
    main()
