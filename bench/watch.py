"""CPU time and memory of a process and all that descend from it, while something is done."""

import os
import threading
import time
from pathlib import Path

SAMPLE_EVERY = 0.2
PAGE_BYTES, TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")


class Watch:
    """Follows this process and all that descend from it: CPU time used, and the largest sum of resident memory."""

    def __init__(self) -> None:
        self.peak_bytes, self.ticks = 0, dict[int, int]()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.follow, daemon=True)

    def __enter__(self) -> "Watch":
        self.sample()
        self.before = sum(self.ticks.values())
        self.began = time.perf_counter()
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()
        self.sample()
        self.seconds = time.perf_counter() - self.began
        self.cpu_seconds = (sum(self.ticks.values()) - self.before) / TICKS

    def follow(self) -> None:
        while not self.ended.wait(SAMPLE_EVERY):
            self.sample()

    def sample(self) -> None:
        resident = 0
        for process in family():
            try:
                fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                resident += int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE_BYTES
            except (FileNotFoundError, ProcessLookupError):
                continue
            # A process that has ended keeps what it was last seen to have used.
            self.ticks[process] = int(fields[11]) + int(fields[12])
        self.peak_bytes = max(self.peak_bytes, resident)


def family() -> list[int]:
    """This process and its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found = [os.getpid()]
    for process in found:
        found += parents.get(process, [])
    return found
