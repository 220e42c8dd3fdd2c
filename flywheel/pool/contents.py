"""What chosen points say: read once each from one version of the warm tier, and judged."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from operator import attrgetter

import numpy as np
from msgspec import Struct

from flywheel.pool.batch_copies import payloads_of
from flywheel.pool.conversations import Conversation, conversation_of
from flywheel.pool.near_duplicates import Signatures, near_duplicates, signatures_of
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.selection import Offer

POINTS_AT_ONCE = 3_000


class Judgement(Struct, frozen=True):
    """Ids of points that were chosen and must not stay: without a conversation to learn from, or said before."""

    unusable: frozenset[str] = frozenset()
    near_duplicates: frozenset[str] = frozenset()


class Contents:
    """What chosen points say.

    Args:
        pool: whose warm tier is read.
        version: of its table.
        usable: whether there is something to learn from a conversation.
        compared: the text of a conversation by which near-duplicates are found; None: they stay.
    """

    def __init__(
        self,
        pool: BenchmarkPool,
        *,
        version: int,
        usable: Callable[[Conversation], bool],
        compared: Callable[[Conversation], str] | None = None,
    ) -> None:
        self.pool = pool
        self.version = version
        self.usable = usable
        self.compared = compared
        self.payloads: dict[str, str] = {}
        self._unusable: set[str] = set()
        self._signatures: dict[str, Signatures] = {}

    def judge(self, offers: Sequence[Offer]) -> Judgement:
        """Which of these points must not stay; of near-duplicates the first one stays.

        Raises:
            PoolError: the lake cannot be read.
        """
        self._read([offer for offer in offers if offer.id not in self.payloads])
        unusable = frozenset(offer.id for offer in offers if offer.id in self._unusable)
        if unusable or self.compared is None or not offers:
            return Judgement(unusable=unusable)
        table = np.stack([self._signatures[offer.id] for offer in offers])
        return Judgement(near_duplicates=frozenset(offers[row].id for row in near_duplicates(table)))

    def _read(self, offers: Sequence[Offer]) -> None:
        pending: list[tuple[list[str], Future[Signatures]]] = []
        with ThreadPoolExecutor(1) as sketching:  # numpy leaves Python free to read what comes next
            for some in by_days(offers):
                payloads = payloads_of(self.pool, some, version=self.version)
                conversations = {point: conversation_of(payload) for point, payload in payloads.items()}
                self.payloads |= payloads
                self._unusable |= {point for point, said in conversations.items() if not self.usable(said)}
                if self.compared is not None:
                    texts = [self.compared(said) for said in conversations.values()]
                    pending.append((list(conversations), sketching.submit(signatures_of, texts)))
        for points, sketched in pending:
            self._signatures.update(zip(points, sketched.result(), strict=True))


def by_days(offers: Sequence[Offer]) -> Iterator[list[Offer]]:
    """The points of some days each, at least ``POINTS_AT_ONCE`` but for the last."""
    some: list[Offer] = []
    for _, of_day in groupby(sorted(offers, key=attrgetter("day")), key=attrgetter("day")):
        some += of_day
        if len(some) >= POINTS_AT_ONCE:
            yield some
            some = []
    if some:
        yield some
