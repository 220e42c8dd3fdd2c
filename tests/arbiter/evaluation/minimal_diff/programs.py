"""Code to change, and how similar it is then."""

from flywheel.arbiter.evaluation.change import change_of_text
from flywheel.arbiter.evaluation.minimal_diff.scoring import MinimalDiff, score

PYTHON = '''\
import math

RATE = 0.25


def total_of(items, discount):
    """The price of all items."""
    total = 0
    for item in items:
        if item.price > 0:
            total += item.price * item.count
    if discount:
        total = total * (1 - discount)
    return round(total, 2)


def widest(shapes):
    best = None
    for shape in shapes:
        if best is None or shape.width > best.width:
            best = shape
    return best


class Basket:
    def __init__(self, owner):
        self.owner = owner
        self.items = []

    def add(self, item, count=1):
        for _ in range(count):
            self.items.append(item)
        return len(self.items)

    def is_full(self):
        return len(self.items) >= math.floor(self.owner.limit * RATE)
'''
OTHER_BODY = '''\
def total_of(items, discount):
    """The price of all items."""
    amounts = [one.price * one.count for one in items if one.price > 0]
    factor = 1 - discount if discount else 1
    return round(sum(amounts) * factor, 2)
'''


def diff(before: str | None, after: str | None, path: str = "shop/basket.py") -> MinimalDiff:
    return score(change_of_text(path, before=before, after=after))


def similarity(before: str | None, after: str | None, path: str = "shop/basket.py") -> float:
    return diff(before, after, path).metrics.ast_similarity


def multiplier(before: str | None, after: str | None, path: str = "shop/basket.py") -> float:
    return diff(before, after, path).metrics.reward_multiplier
