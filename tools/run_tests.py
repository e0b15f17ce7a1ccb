"""The quick tests, in two parts at the same time: those with Spark mostly wait, and the others do not.

    python tools/run_tests.py                    both parts, two processes each
    python tools/run_tests.py --workers 4        more of them
    python tools/run_tests.py -- tests/unit -x   what stands behind -- is for pytest, in both parts

Each part is a pytest of its own, with its own closing line and its twenty slowest tests. What the part without Spark
says comes at once, what the other one says behind it. Whatever ends this ends both. Exit code: that of the first part
that did not pass; 0 if both did.
"""

import argparse
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parent.parent
SLOWEST = 20
OTHERS = ("-m", "not spark and not long")
# Tests of one file share what they set up in the session of their process.
SPARK = ("-m", "spark and not long", "--dist", "loadfile")


class Part:
    """A pytest. What it says is kept until `show`, and shown as it comes from then on."""

    def __init__(self, words: Sequence[str]) -> None:
        self.kept: list[str] = []
        self.is_shown, self.lock = False, threading.Lock()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pytest", f"--durations={SLOWEST}", *words],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # In the background Ctrl-C is ignored, and so it would be by processes that a test starts to interrupt them.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.listening = threading.Thread(target=self.listen)

    def listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:
            # A line of dots grows, and is worth seeing before it ends.
            while piece := said.read(1):
                with self.lock:
                    self.kept.append(piece)
                    if self.is_shown:
                        self.write()

    def show(self) -> None:
        with self.lock:
            self.is_shown = True
            self.write()

    def write(self) -> None:
        sys.stdout.write("".join(self.kept))
        sys.stdout.flush()
        self.kept.clear()

    def end(self) -> int:
        self.listening.join()
        return self.process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="2", help="processes of each part (2)")
    parser.add_argument("more", nargs="*", help="for pytest")
    asked = parser.parse_args(arguments)
    common = ["-n", asked.workers, *asked.more]
    parts = [Part([*OTHERS, *common]), Part([*SPARK, *common])]

    def interrupt(number: int, frame: FrameType | None) -> None:
        # Interrupted tests end what they have started; those that are terminated do not.
        for part in parts:
            part.process.send_signal(signal.SIGINT)

    # Ctrl-C reaches the parts without us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, interrupt)
    for part in parts:
        part.listening.start()
    codes = []
    for part in parts:
        part.show()
        codes.append(part.end())
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
