"""What `prepare` compiles is everything that is compiled at all."""

import subprocess
import sys

import pytest

PROGRAM = """
import msgspec
from tidings import Event, parse
from tidings.matching import Index
from tidings.matching.index.kernels import changes, heads, renewal, search
from tidings.matching.index.index import prepare

def count():
    modules = (changes, heads, renewal, search)
    found = {name: it for module in modules for name, it in vars(module).items()}
    return {name: len(it.signatures) for name, it in found.items() if hasattr(it, "signatures")}

prepare()
before = count()
index = Index("fast", decode=lambda head: Event(msgspec.msgpack.decode(head)))
index.add_many((key, parse(f"price > {key} AND symbol = 's{key % 7}'"), key % 5) for key in range(3000))
for key in range(50):
    index.add(key, parse(f"name LIKE '%{key}%' AND NOT EXISTS halted"), "a")
for number in range(300):
    event = Event({"price": number, "symbol": f"s{number % 7}", "name": "x" * (number % 9)})
    head = msgspec.msgpack.encode(event.attributes, order="deterministic")
    index.match(event), index.match_batch([event] * 3), index.match_links([event]), index.find_heads([head] * 4)
    index.match_heads([head]), index.match_heads_links([head]), index.find_heads_links([head])
for key in range(0, 3000, 2):
    index.discard(key)
assert count() == before, (before, count())
"""


def test_nothing_is_left_to_compile_after_preparing() -> None:
    pytest.importorskip("numba")
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
