"""A verdict on its way from the arbiter's log into the points of every tier, and out again, as it was signed."""

import json
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from flywheel.arbiter.audit_trail.contents import Verdict, read_content
from flywheel.arbiter.audit_trail.keys import VERDICT_DOMAIN, PublicKey
from flywheel.arbiter.audit_trail.notary import Notary, under_spec
from flywheel.arbiter.audit_trail.trail import find, list_keys
from flywheel.collection.collector import Collector
from flywheel.collection.importers.native import logs_of
from flywheel.pool.anonymization.day import find_violations
from flywheel.pool.anonymization.verdicts import FORMS
from flywheel.pool.batches import batch_members
from flywheel.pool.export_choice import criteria_for
from flywheel.pool.export_files import write_export
from flywheel.pool.exports import make_export
from flywheel.pool.filters import PointFilter
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.points import PointQuery
from flywheel.pool.rows import read_rows
from flywheel.pool.schemas import ANONYMIZED, VALIDATED, WARM
from flywheel.records import Caws, DataPoint, Evaluation, decode_log, decode_point, encode
from tests.arbiter.audit_trail.test_notary import SPEC
from tests.pool.filling import LATER
from tests.pool.logs import NOON, evaluation, execution, routing, task_logs, write_segment
from tests.pool.test_retention import DAY, run_day

SECRET = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aB3dE6gH9"
PERSON = "ann.smith@example.org"


def logged(task: str, *, tenant: str = "acme", **fields: Any) -> Evaluation:
    log = decode_log(json.dumps({**evaluation(task), "tenantId": tenant, **fields}).encode())
    assert isinstance(log, Evaluation)
    return log


@pytest.fixture
def signed(pool: BenchmarkPool) -> Evaluation:
    """A task whose log went through the collector, with a secret beside the signature, and into every tier."""
    spec = msgspec.structs.replace(SPEC, waivers_used=(f"asked {PERSON}", SECRET))
    with (
        Notary(pool.settings, pool.engine) as notary,
        Collector(pool.settings.segments_dir, "acme", clock=lambda: NOON) as collector,
    ):
        made = notary.sign(under_spec(logged("t1"), spec))
        for log in (routing("t1", primaryReason=f"the key is {SECRET}"), execution("t1")):
            collector.log(decode_log(json.dumps(log).encode()))
        assert collector.log_evaluation(made)
    index_segments(pool, now=LATER)
    run_day(pool, now=LATER)
    return made


def caws_in(payload: Any) -> Caws:
    point = decode_point(bytes(payload) if not isinstance(payload, str) else payload)
    assert point.caws is not UNSET
    return point.caws


def everywhere(pool: BenchmarkPool) -> dict[str, Caws]:
    found = {
        table: caws_in(next(iter(read_rows(pool, table, DAY)))["payload"]) for table in (VALIDATED, ANONYMIZED, WARM)
    }
    with pool.transaction() as connection:
        row = connection.execute("SELECT payload FROM hot_points").fetchone()
    assert row is not None
    [queried] = pool.get_points(PointQuery(where=PointFilter(tenants=())))
    return {**found, "hot": caws_in(row[0]), "query": caws_in(encode(queried))}


def test_a_verdict_is_in_the_points_of_every_tier_and_nothing_of_it_is_taken_for_a_secret(
    pool: BenchmarkPool, signed: Evaluation
) -> None:
    assert signed.caws is not UNSET
    for where, caws in everywhere(pool).items():
        assert caws.verdict_id == signed.caws.verdict_id, where
        assert caws.arbiter_signature == signed.caws.arbiter_signature, where
        assert (caws.spec_id, caws.spec_digest, caws.gates_passed) == ("FEAT-0017", "a" * 64, ("tests", "lint")), where
        assert (caws.scores, caws.budget_usage) == (signed.caws.scores, signed.caws.budget_usage), where
    assert find_violations(pool, DAY).points == 0


def test_secrets_and_persons_in_the_texts_of_a_verdict_are_replaced(pool: BenchmarkPool, signed: Evaluation) -> None:
    for where, caws in everywhere(pool).items():
        assert SECRET not in str(caws), where
        assert where == VALIDATED or PERSON not in str(caws), where
        assert len(caws.waivers_used) == 2, where


def test_the_signature_of_a_point_is_verified_by_the_trail(pool: BenchmarkPool, signed: Evaluation) -> None:
    caws = everywhere(pool)["query"]
    with pool.engine.connect() as connection:
        read = find(connection, caws.verdict_id or "")
        [key] = list_keys(connection)
    assert caws.arbiter_signature == read.entry.verdict_signature
    assert PublicKey(key.public_key).verifies(caws.arbiter_signature or "", VERDICT_DOMAIN, read.entry.content_digest)
    verdict = read_content(read.content or b"")
    assert isinstance(verdict, Verdict)
    [point] = pool.get_points(PointQuery())
    assert verdict.overall_score == point.evaluation.overall_score
    assert verdict.decided_at == signed.timestamp.astimezone(UTC)


def test_an_export_has_the_verdict(pool: BenchmarkPool, signed: Evaluation, tmp_path: Path) -> None:
    criteria = criteria_for(pool.settings, "sft", min_points=1, min_task_types=1, min_quality=0.1)
    made = make_export(pool, criteria, export_id="e1", now=LATER)
    assert len(batch_members(pool, "e1")) == 1
    folder = write_export(pool, made.batch.id, tmp_path / "e1", "jsonl")
    [line] = [line for path in folder.glob("*.jsonl") for line in path.read_bytes().splitlines()]
    assert signed.caws is not UNSET
    assert caws_in(line).arbiter_signature == signed.caws.arbiter_signature


def test_a_point_that_is_taken_apart_and_joined_again_keeps_its_verdict(
    pool: BenchmarkPool, signed: Evaluation
) -> None:
    [point] = pool.get_points(PointQuery())
    [evaluated] = [log for log in logs_of(point) if isinstance(log, Evaluation)]
    assert evaluated.caws == point.caws


def test_points_and_logs_from_before_verdicts_are_read_and_written_as_they_were(pool: BenchmarkPool) -> None:
    write_segment(pool.settings, "a", task_logs("t1"))
    index_segments(pool, now=LATER)
    run_day(pool, now=LATER)
    [row] = read_rows(pool, WARM, DAY)
    payload = row["payload"] if isinstance(row["payload"], bytes) else row["payload"].encode()
    assert b'caws"' not in payload
    point = decode_point(payload)
    assert (point.caws, encode(point)) == (UNSET, payload)


HOSTILE = {"verdictId": PERSON, "arbiterSignature": SECRET, "specDigest": f"{PERSON}", "specId": f"by {PERSON}"}


def test_what_only_stands_where_a_signature_belongs_is_looked_into(pool: BenchmarkPool) -> None:
    logs = [routing("t1"), execution("t1"), evaluation("t1", caws=HOSTILE)]
    write_segment(pool.settings, "a", logs)
    index_segments(pool, now=LATER)
    run_day(pool, now=LATER)
    [row] = read_rows(pool, ANONYMIZED, DAY)
    assert PERSON not in row["payload"]
    assert SECRET not in row["payload"]


def test_the_forms_of_ids_and_signatures_are_those_that_are_made(pool: BenchmarkPool, signed: Evaluation) -> None:
    assert signed.caws is not UNSET
    made = msgspec.to_builtins(signed.caws)
    assert all(form.fullmatch(made[name]) for name, form in FORMS.items())
    assert set(FORMS) <= {field.encode_name for field in msgspec.structs.fields(Caws)}
    assert DataPoint.__struct_fields__[-1] == "caws"
