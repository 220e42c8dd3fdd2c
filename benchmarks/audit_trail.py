"""What a signed verdict costs a task, how fast verdicts come into the audit trail, and how fast that is verified.

``python benchmarks/audit_trail.py [--verdicts 5000] [--json]``. Peers, in the same run on the same PostgreSQL:

- of signing in the arbiter's thread: writing the evaluation's log itself, which that thread does anyway;
- of appending, in transactions of 1,000: rows of the same bytes, inserted into a table without chain, signature and
  trigger;
- of appending by two processes at once: one process;
- of verifying: reading the same rows and looking at nothing.

Signing and verifying in processor time, what waits for PostgreSQL by the clock.
"""

import argparse
import json
import multiprocessing
import secrets
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from _installation import empty_installation
from sqlalchemy import Engine, text

from flywheel import records
from flywheel.arbiter.audit_trail.contents import Sealed, encode_content, verdict_on
from flywheel.arbiter.audit_trail.keys import VERDICT_DOMAIN, SigningKey
from flywheel.arbiter.audit_trail.notary import Notary
from flywheel.arbiter.audit_trail.rotation import settled_key
from flywheel.arbiter.audit_trail.trail import append, read_trail
from flywheel.arbiter.audit_trail.verifying import verify_trail
from flywheel.collection import Collector
from flywheel.database import connect
from flywheel.settings import Settings

if TYPE_CHECKING:
    from multiprocessing.pool import Pool

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
AT_ONCE = 1_000
ROUNDS = 3
PROCESSES = 2


def evaluation(number: int) -> records.Evaluation:
    """With four gates, as of a change under a working spec."""
    gates = tuple(
        records.QualityGate(name=name, passed=True, score=1, threshold=1, mandatory=True)
        for name in ("tests", "lint", "coverage", "minimal-diff")
    )
    return records.Evaluation(
        task_id=f"task-{number}",
        agent_id=f"agent-{number % 12}",
        tenant_id="acme",
        timestamp=AT,
        quality_gates=gates,
        rubric_scores=records.RubricScores(format=1, tool=1, task=0.9, minimal=1, cost=0.8, safety=1),
        overall_score=0.93,
        caws_compliant=True,
        budget_compliant=True,
        passed_all_mandatory=True,
    )


def sealed(count: int, key: SigningKey) -> list[Sealed]:
    """Signed verdicts that wait."""
    made = []
    for number in range(count):
        verdict = verdict_on(evaluation(number), verdict_id=uuid.uuid4().hex, nonce=secrets.token_hex(16))
        one = Sealed(kind="verdict", content=encode_content(verdict))
        made.append(msgspec.structs.replace(one, signature=key.sign(VERDICT_DOMAIN, one.digest)))
    return made


def microseconds(work: Callable[[records.Evaluation], object], count: int) -> float:
    """The median over evaluations, of the thread's processor time."""
    taken = []
    for number in range(count):
        one = evaluation(number)
        started = time.thread_time()
        work(one)
        taken.append(time.thread_time() - started)
    return statistics.median(taken) * 1e6


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def append_all(url: str, waiting: list[Sealed], seed: bytes) -> None:
    """Append in transactions of ``AT_ONCE``."""
    engine, key = connect(url), SigningKey.of_seed(seed)
    for some in parts(waiting):
        with engine.begin() as connection:
            append(connection, some, key)
    engine.dispose()


def insert_all(engine: Engine, waiting: list[Sealed]) -> None:
    """The same bytes into a table that holds nothing."""
    statement = text("INSERT INTO peer VALUES (:a, :b, :c, :d, :e)")
    for some in parts(waiting):
        with engine.begin() as connection:
            rows = [
                {"a": one.digest, "b": one.digest, "c": one.signature, "d": one.signature, "e": one.content}
                for one in some
            ]
            connection.execute(statement, rows)


def parts(waiting: list[Sealed]) -> Iterator[list[Sealed]]:
    """``AT_ONCE`` at a time."""
    for start in range(0, len(waiting), AT_ONCE):
        yield waiting[start : start + AT_ONCE]


def at_once(pool: "Pool", url: str, waiting: list[Sealed], seed: bytes) -> None:
    """The same by several processes, each its share."""
    share = len(waiting) // PROCESSES
    shares = [waiting[start : start + share] for start in range(0, share * PROCESSES, share)]
    pool.starmap(append_all, [(url, some, seed) for some in shares], chunksize=1)


def read_all(engine: Engine) -> None:
    """Read the trail and look at nothing."""
    with engine.connect() as connection, connection.begin():
        for _ in read_trail(connection):
            pass


def measured(settings: Settings, count: int) -> dict[str, float]:
    """All figures; the ratios are what to compare."""
    engine, seed = connect(settings.database_url), bytes(range(32))
    given = settings.model_copy(update={"signing_key": type(settings.signing_key)(seed.hex())})
    key = settled_key(given, engine)
    with (
        Notary(given, engine, every_s=1e6) as notary,
        Collector(settings.segments_dir, "acme", remove_identifiers=False) as collector,
    ):
        signing, logging = (
            statistics.median(microseconds(work, count // ROUNDS) for _ in range(ROUNDS))
            for work in (notary.sign, collector.log_evaluation)
        )
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE peer (a bytea UNIQUE, b bytea, c text, d text, e bytea)"))
    url = settings.database_url
    alone = statistics.median(
        seconds(partial(append_all, url, some, seed)) for some in [sealed(count, key) for _ in range(ROUNDS)]
    )
    several = [sealed(count, key) for _ in range(ROUNDS)]
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        pool.map(time.sleep, [0.5] * PROCESSES, chunksize=1)  # they have imported what they need
        together = statistics.median(seconds(partial(at_once, pool, url, some, seed)) for some in several)
    plain = statistics.median(seconds(partial(insert_all, engine, some)) for some in several)
    started = time.process_time()
    read_all(engine)
    reading = time.process_time() - started
    started = time.process_time()
    report = verify_trail(engine)
    verifying = time.process_time() - started
    assert report.intact, report.finding
    engine.dispose()
    return {
        "signMicroseconds": signing,
        "logMicroseconds": logging,
        "signRatio": signing / logging,
        "appendedPerSecond": count / alone,
        "insertedPerSecond": count / plain,
        "appendRatio": plain / alone,
        "appendedPerSecondByTwo": count / together,
        "verifiedPerSecond": report.entries / verifying,
        "readPerSecond": report.entries / reading,
        "verifyRatio": reading / verifying,
        "entries": report.entries,
    }


def main() -> None:
    """Measure all in one run and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verdicts", type=int, default=5_000)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    with empty_installation() as settings:
        figures = {name: round(value, 3) for name, value in measured(settings, arguments.verdicts).items()}
    if arguments.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:<32}{value:>14,.2f}")


if __name__ == "__main__":
    main()
