"""What chosen points say: read once each from one version of the warm tier, and judged."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from itertools import groupby
from operator import attrgetter
from typing import Literal

import numpy as np
from msgspec import Struct

from flywheel.pool.batch_copies import payloads_of
from flywheel.pool.conversations import Conversation, conversation_of, text_of
from flywheel.pool.near_duplicates import Signatures, near_duplicates, signatures_of
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.selection import Offer

POINTS_AT_ONCE = 3_000

Compared = Literal["conversation", "answer"]


class Judgement(Struct, frozen=True):
    """Ids of points that were chosen and must not stay: without a conversation to learn from, or said before."""

    unusable: frozenset[str] = frozenset()
    near_duplicates: frozenset[str] = frozenset()


class Sketch(Struct, frozen=True, gc=False):
    """By what near-duplicates are found: a row of a table of signatures, compared with those of its group."""

    signature: Signatures
    group: int


class Contents:
    """What chosen points say. Of those that must not stay nothing is kept.

    Args:
        pool: whose warm tier is read.
        version: of its table.
        usable: whether there is something to learn from a conversation.
        compared: by what near-duplicates are found; None: they stay. ``answer``: only among answers to the same prompt
            with the same outcome, so that a task keeps its different answers, right ones and wrong ones.
    """

    def __init__(
        self,
        pool: BenchmarkPool,
        *,
        version: int,
        usable: Callable[[Conversation], bool],
        compared: Compared | None = None,
    ) -> None:
        self.pool = pool
        self.version = version
        self.usable = usable
        self.compared = compared
        self.payloads: dict[str, str] = {}
        self._sketches: dict[str, Sketch] = {}

    def judge(self, offers: Sequence[Offer]) -> Judgement:
        """Which of these points must not stay; of near-duplicates the first one stays.

        Raises:
            PoolError: the lake cannot be read.
        """
        unusable = self._read([offer for offer in offers if offer.id not in self.payloads])
        usable = [offer.id for offer in offers if offer.id not in unusable]
        near: frozenset[str] = frozenset()
        if self.compared is not None and usable:
            sketches = [self._sketches[point] for point in usable]
            table = np.stack([sketch.signature for sketch in sketches])
            groups = np.array([sketch.group for sketch in sketches], dtype=np.uint64)
            near = frozenset(usable[row] for row in near_duplicates(table, groups))
        self._drop(unusable | near)
        return Judgement(unusable=unusable, near_duplicates=near)

    def keep(self, offers: Iterable[Offer]) -> None:
        """Keep the payloads of these points, and nothing else."""
        self._drop(self.payloads.keys() - {offer.id for offer in offers})
        self._sketches.clear()

    def _drop(self, points: Collection[str]) -> None:
        for point in points:
            self.payloads.pop(point)
            self._sketches.pop(point, None)

    def _read(self, offers: Sequence[Offer]) -> frozenset[str]:
        """Read these points; those that are unusable."""
        unusable: set[str] = set()
        pending: list[tuple[list[str], list[int], Future[Signatures]]] = []
        outcomes = {offer.id: offer.success for offer in offers}
        with ThreadPoolExecutor(1) as sketching:  # numpy leaves Python free to read what comes next
            for some in by_days(offers):
                payloads = payloads_of(self.pool, some, version=self.version)
                self.payloads |= payloads
                conversations = {point: conversation_of(payload) for point, payload in payloads.items()}
                unusable |= {point for point, said in conversations.items() if not self.usable(said)}
                if self.compared is not None:
                    whole = self.compared == "conversation"
                    texts = [said.text if whole else text_of(said.answer) for said in conversations.values()]
                    groups = [0 if whole else group_of(said, outcomes[p]) for p, said in conversations.items()]
                    pending.append((list(conversations), groups, sketching.submit(signatures_of, texts)))
        for points, groups, sketched in pending:
            self._sketches.update(zip(points, map(Sketch, sketched.result(), groups), strict=True))
        return frozenset(unusable)


def group_of(conversation: Conversation, success: bool) -> int:
    """A number that answers to the same prompt with the same outcome share."""
    digest = blake2b(text_of(conversation.prompt).encode(), digest_size=8, salt=b"success" if success else b"failure")
    return int.from_bytes(digest.digest())


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
