"""What chosen points say: read once each from one version of the warm tier, and judged."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

import numpy as np
import xxhash
from msgspec import Struct

from flywheel.pool.batch_copies import read_payloads
from flywheel.pool.conversations import Conversation, conversation_of, text_of
from flywheel.pool.near_duplicates import Signatures, near_duplicates, signatures_of
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.selection import Offer
from flywheel.pool.workers import threaded

TEXTS_AT_ONCE = 256
"""So many texts are sketched at once: as many threads as there are cores share them."""

Said = tuple[str, str]
"""The id of a point, and what is compared of what it says."""
Compared = Literal["conversation", "answer"]


class Judgement(Struct, frozen=True):
    """Ids of points that were chosen and must not stay: without a conversation to learn from, or said before."""

    unusable: frozenset[str] = frozenset()
    near_duplicates: frozenset[str] = frozenset()


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
        self.payloads: dict[str, memoryview] = {}
        self._groups: dict[str, int] = {}
        self._signatures: dict[str, Signatures] = {}

    def judge(self, offers: Sequence[Offer]) -> Judgement:
        """Which of these points must not stay; of near-duplicates the first one stays.

        Raises:
            PoolError: the lake cannot be read.
        """
        unusable = self._read([offer for offer in offers if offer.id not in self.payloads])
        usable = [offer.id for offer in offers if offer.id not in unusable]
        near = self._near_duplicates(usable) if self.compared else frozenset()
        self._drop(unusable | near)
        return Judgement(unusable=unusable, near_duplicates=near)

    def keep(self, offers: Iterable[Offer]) -> None:
        """Keep the payloads of these points, and nothing else."""
        self._drop(self.payloads.keys() - {offer.id for offer in offers})
        self._groups.clear()
        self._signatures.clear()

    def _drop(self, points: Collection[str]) -> None:
        for point in points:
            self.payloads.pop(point)
            self._groups.pop(point, None)
            self._signatures.pop(point, None)

    def _read(self, offers: Sequence[Offer]) -> frozenset[str]:
        """Read these points; those that are unusable."""
        unusable: set[str] = set()
        self._sketch(self._reading(offers, unusable))
        return frozenset(unusable)

    def _reading(self, offers: Sequence[Offer], unusable: set[str]) -> Iterator[Said]:
        """Read these points, and give whole conversations away as they come: all of them are compared."""
        outcomes = {offer.id: offer.success for offer in offers}
        for point, payload in read_payloads(self.pool, offers, version=self.version):
            conversation = conversation_of(payload)
            self.payloads[point] = payload
            if not self.usable(conversation):
                unusable.add(point)
            elif self.compared == "answer":
                self._groups[point] = group_of(conversation, outcomes[point])
            elif self.compared == "conversation":
                yield point, conversation.text

    def _near_duplicates(self, points: Sequence[str]) -> frozenset[str]:
        """Which of these points, the best first, say what another one before them said.

        One that is alone in its group is like no other, so that nobody need know what it said.
        """
        groups = np.array([self._groups.get(point, 0) for point in points], dtype=np.uint64)
        _, numbers, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        shared = np.flatnonzero(sizes[numbers] > 1)
        if not len(shared):
            return frozenset()
        compared = [points[row] for row in shared.tolist()]
        self._sketch(self._answers(point for point in compared if point not in self._signatures))
        table = np.stack([self._signatures[point] for point in compared])
        return frozenset(compared[row] for row in near_duplicates(table, groups[shared]))

    def _answers(self, points: Iterable[str]) -> Iterator[Said]:
        """What these points answered. Few are compared, so that they are decoded again rather than all kept."""
        return ((point, text_of(conversation_of(self.payloads[point]).answer)) for point in points)

    def _sketch(self, said: Iterator[Said]) -> None:
        """Keep the signatures of these texts; numpy leaves Python free to read and decode what comes next."""
        parts = iter(lambda: list(islice(said, TEXTS_AT_ONCE)), [])
        for some in threaded(sketched, parts, threads=self.pool.processes):
            self._signatures.update(some)


def sketched(said: Sequence[Said]) -> Iterator[tuple[str, Signatures]]:
    """Each point and the signature of its text."""
    points, texts = zip(*said, strict=True)
    return zip(points, signatures_of(texts), strict=True)


def group_of(conversation: Conversation, success: bool) -> int:
    """A number that answers to the same prompt with the same outcome share."""
    return xxhash.xxh3_64_intdigest(text_of(conversation.prompt).encode(), seed=success)
