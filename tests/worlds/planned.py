"""Trees of brokers for tests of planning: written as text, or drawn at random."""

from random import Random

from tidings.planning.tree import Link, OverlayTree, is_tree, link, tree_of


def tree(text: str) -> OverlayTree:
    """`tree("1-2 1-3 2-4")`."""
    return tree_of([link(*each.split("-")) for each in text.split()])


def random_tree(rng: Random, brokers: int) -> OverlayTree:
    """Each broker joins one of those before it."""
    return tree_of([(str(rng.randrange(place)), str(place)) for place in range(1, brokers)], ["0"])


def with_changes(rng: Random, initial: OverlayTree, changes: int) -> OverlayTree:
    """So many links of it are replaced by random others that it does not have."""
    links = list(initial.links)
    for gone in rng.sample(initial.links, changes):
        links.remove(gone)
        new = [
            each for each in pairs(initial) if each not in initial.links and is_tree([*links, each], initial.brokers)
        ]
        links.append(rng.choice(new) if new else gone)
    return tree_of(links)


def pairs(of: OverlayTree) -> list[Link]:
    return [(a, b) for place, a in enumerate(of.brokers) for b in of.brokers[place + 1 :]]
