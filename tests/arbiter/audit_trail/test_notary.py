"""What the arbiter logs of evaluations is signed and comes into the trail, whoever is killed in between."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Struct
from sqlalchemy import Engine

from flywheel.arbiter.audit_trail.chain import Read
from flywheel.arbiter.audit_trail.contents import Verdict, read_content
from flywheel.arbiter.audit_trail.heads import read_head
from flywheel.arbiter.audit_trail.keys import VERDICT_DOMAIN, PublicKey
from flywheel.arbiter.audit_trail.notary import Notary, sign_at_once, sign_change_at_once, under_spec, without_verdict
from flywheel.arbiter.audit_trail.outbox import deliver, has_waiting
from flywheel.arbiter.audit_trail.rotation import rotate, settled_key
from flywheel.arbiter.audit_trail.trail import find, list_keys, newest
from flywheel.arbiter.audit_trail.verifying import verify_trail
from flywheel.arbiter.evaluation.spec_verdict import SpecVerdict
from flywheel.arbiter.settings import CacheSettings, ExecutionSettings
from flywheel.collection.segments import closed_segments, write_closed_segment
from flywheel.database import connect
from flywheel.errors import AuditTrailError, DatabaseError, SegmentError
from flywheel.records import BudgetUsage, Caws, CawsScores, Evaluation, QualityGate
from flywheel.settings import Settings
from tests.arbiter.audit_trail.trails import NOON, evaluation
from tests.arbiter.running.service import ScriptedAgent, broken, logs_of, service, task
from tests.arbiter.running.test_late import verdict_of

SPEC = SpecVerdict(
    spec_id="FEAT-0017",
    spec_digest="a" * 64,
    waivers_used=("WV-1",),
    gates_passed=("tests", "lint"),
    scores=CawsScores(evidence_completeness=1, budget_adherence=0.5, gate_integrity=1, provenance_clarity=1),
    budget_usage=BudgetUsage(files_used=2, files_limit=4, loc_used=40, loc_limit=80, budget_compliant=True),
)
PATIENCE_S = 30.0


@pytest.fixture
def notary(settings: Settings, engine: Engine) -> Iterator[Notary]:
    """One that delivers when it is asked to, and at the end."""
    with Notary(settings, engine, every_s=1e6) as notary:
        yield notary


def caws_of(evaluated: Evaluation | None) -> Caws:
    assert evaluated is not None
    assert evaluated.caws is not UNSET
    return evaluated.caws


def entry_of(engine: Engine, evaluated: Evaluation | None) -> Read:
    with engine.connect() as connection:
        return find(connection, caws_of(evaluated).verdict_id or "")


def verdicts(engine: Engine) -> list[Verdict]:
    with engine.connect() as connection:
        contents = [read_content(read.content) for read in newest(connection, limit=1_000) if read.content]
    return [content for content in reversed(contents) if isinstance(content, Verdict)]


def test_a_signed_evaluation_is_in_the_trail_as_it_was_signed(notary: Notary, engine: Engine) -> None:
    signed = notary.signed(evaluation(score=0.75))
    notary.deliver()
    read = entry_of(engine, signed)
    assert read.content is not None
    verdict = read_content(read.content)
    assert isinstance(verdict, Verdict)
    assert (verdict.task_id, verdict.overall_score, verdict.spec_id) == ("t1", 0.75, None)
    assert caws_of(signed).gates_passed == ("tests",)
    assert caws_of(signed).arbiter_signature == read.entry.verdict_signature
    with engine.connect() as connection:
        [key] = list_keys(connection)
    signature = caws_of(signed).arbiter_signature or ""
    assert PublicKey(key.public_key).verifies(signature, VERDICT_DOMAIN, read.entry.content_digest)


def test_a_verdict_comes_into_the_trail_by_itself(engine: Engine, settings: Settings) -> None:
    with Notary(settings, engine, every_s=0.01) as notary:
        for number in range(3):
            notary.signed(evaluation(f"t{number}"))
        waited_until = time.monotonic() + PATIENCE_S
        while len(verdicts(engine)) < 3:
            assert time.monotonic() < waited_until, "nobody delivers"
            time.sleep(0.01)
    assert read_head(settings.audit_head).sequence >= 2
    assert verify_trail(engine).intact


def test_a_verdict_by_a_working_spec_says_what_the_spec_says(notary: Notary, engine: Engine) -> None:
    signed = notary.signed(msgspec.structs.replace(under_spec(evaluation(), SPEC), rubric="builtin@1"))
    notary.deliver()
    caws = caws_of(signed)
    assert (caws.spec_id, caws.waivers_used, caws.gates_passed) == ("FEAT-0017", ("WV-1",), ("tests", "lint"))
    [verdict] = verdicts(engine)
    assert verdict.rubric == "builtin@1"
    assert (verdict.spec_digest, verdict.scores, verdict.budget_usage) == ("a" * 64, SPEC.scores, SPEC.budget_usage)
    assert caws_of(without_verdict(signed)) == msgspec.structs.replace(caws, verdict_id=None, arbiter_signature=None)
    assert without_verdict(notary.signed(evaluation())).caws is UNSET


def test_a_verdict_that_is_signed_at_once_is_in_the_trail_at_once(settings: Settings, engine: Engine) -> None:
    signed = sign_at_once(settings, engine, under_spec(evaluation(), SPEC))
    assert entry_of(engine, signed).entry.kind == "verdict"
    with pytest.raises(AuditTrailError, match="names no tenant"):
        sign_at_once(settings, engine, evaluation(tenant=None))


class Judged(Struct):
    """A change that a spec judged and no rubric scored."""

    verdict: SpecVerdict = SPEC
    quality_gates: tuple[QualityGate, ...] = evaluation().quality_gates
    passed_all_mandatory: bool = False
    caws_compliant: bool = False
    budget_compliant: bool = True


def test_a_change_that_a_spec_alone_judged_is_signed_without_scores(settings: Settings, engine: Engine) -> None:
    caws = sign_change_at_once(settings, engine, Judged(), task_id="t9", agent_id="ann", at=NOON)
    [verdict] = verdicts(engine)
    assert (verdict.task_id, verdict.agent_id, verdict.tenant_id) == ("t9", "ann", settings.tenant_id)
    assert (verdict.overall_score, verdict.rubric_scores, verdict.passed_all_mandatory) == (None, None, False)
    assert (verdict.verdict_id, verdict.spec_id, verdict.gates_passed) == (
        caws.verdict_id,
        "FEAT-0017",
        SPEC.gates_passed,
    )
    assert verify_trail(engine).intact


# --- every way in which the arbiter logs ----------------------------------------------------------------------------


def test_every_evaluation_that_a_service_logs_has_a_verdict_of_its_own(
    notary: Notary, engine: Engine, tmp_path: Path
) -> None:
    cached = ExecutionSettings(refresh_s=0.0, cache=CacheSettings(enabled=True))
    agents: dict[str, Any] = {"a": ScriptedAgent("0.9 good"), "b": broken()}
    with service(engine, tmp_path / "logs", agents, settings=cached, notary=notary) as arbiter:
        done = [arbiter.execute_task(task(number)) for number in range(6)]
        again = arbiter.execute_task(msgspec.structs.replace(task(0), id="again"))
    assert again.cached_from == "t0"
    notary.deliver()
    assert verify_trail(engine).intact
    logged = [log for logs in logs_of(tmp_path / "logs").values() for log in logs.evaluations]
    assert len(logged) > len(done), "attempts that could not answer are logged, too"
    assert {caws_of(log).verdict_id for log in logged} == {verdict.verdict_id for verdict in verdicts(engine)}
    assert len(verdicts(engine)) == len(logged)
    for log in logged:
        verdict = read_content(entry_of(engine, log).content or b"")
        assert isinstance(verdict, Verdict)
        assert (verdict.task_id, verdict.overall_score) == (log.task_id, log.overall_score)
        assert (verdict.decided_at, verdict.tenant_id) == (log.timestamp, "acme")
    assert caws_of(again.evaluation).verdict_id != caws_of(done[0].evaluation).verdict_id


def test_an_evaluation_that_comes_late_is_signed_as_well(notary: Notary, engine: Engine, tmp_path: Path) -> None:
    with service(engine, tmp_path / "logs", {"a": ScriptedAgent("a poem")}, notary=notary) as arbiter:
        assert arbiter.execute_task(task()).evaluation is None
        late = arbiter.record_evaluation("t1", verdict_of(0.9))
    notary.deliver()
    [logged] = logs_of(tmp_path / "logs")["t1"].evaluations
    assert caws_of(late.evaluation) == caws_of(logged)
    assert entry_of(engine, logged).entry.sequence == 2


def test_without_a_notary_nothing_claims_a_verdict(engine: Engine, tmp_path: Path) -> None:
    class Claiming:
        def evaluate(self, subject: Any) -> Any:
            from tests.arbiter.running.service import ScoreReader

            verdict = ScoreReader().evaluate(subject)
            assert verdict is not None
            claimed = Caws(verdict_id="0" * 32, arbiter_signature="x")
            return msgspec.structs.replace(
                verdict, evaluation=msgspec.structs.replace(verdict.evaluation, caws=claimed)
            )

    with service(engine, tmp_path, {"a": ScriptedAgent("0.9 good")}, evaluator=Claiming()) as arbiter:
        done = arbiter.execute_task(task())
    assert done.evaluation is not None
    assert done.evaluation.caws is UNSET
    assert logs_of(tmp_path)["t1"].evaluations[0].caws is UNSET


# --- what goes wrong ------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from flywheel.arbiter.audit_trail import notary as module, outbox
from flywheel.arbiter.audit_trail.notary import Notary
from flywheel.collection.collector import Collector
from flywheel.database import connect
from flywheel.settings import Settings
from tests.arbiter.audit_trail.trails import evaluation

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

url, home, when = sys.argv[1:]
settings = Settings.load(profile="smoke", home=home, database_url=url)
notary = Notary(settings, connect(url), every_s=1e6)
collector = Collector(settings.segments_dir, "acme")
signed = notary.signed(evaluation())
if when == "before the log":
    die()
collector.log_evaluation(signed)
if when == "before the trail":
    die()
outbox.remove_closed_segment = die
notary.deliver()
"""


@pytest.mark.parametrize("when", ["before the log", "before the trail", "before the file is deleted"])
def test_a_verdict_of_a_killed_process_is_in_the_trail_once_when_the_next_one_has_delivered(
    settings: Settings, engine: Engine, database_url: str, when: str
) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, database_url, str(settings.home), when], check=False, env=os.environ
    )
    assert killed.returncode == -signal.SIGKILL
    assert len(verdicts(engine)) == (when == "before the file is deleted")
    assert has_waiting(settings.verdicts_dir)
    with Notary(settings, engine) as notary:
        notary.deliver()
    [verdict] = verdicts(engine)
    assert not has_waiting(settings.verdicts_dir)
    report = verify_trail(engine, heads=[read_head(settings.audit_head)])
    assert (report.intact, report.entries) == (True, 2)
    logged = [log for logs in logs_of_killed(settings).values() for log in logs.evaluations]
    assert [caws_of(log).verdict_id for log in logged] == ([] if when == "before the log" else [verdict.verdict_id])


def logs_of_killed(settings: Settings) -> Any:
    from flywheel.collection.live_segment import recover_segments

    if settings.segments_dir.exists():
        recover_segments(settings.segments_dir)
    return logs_of(settings.segments_dir)


def test_what_is_delivered_twice_is_appended_once(notary: Notary, engine: Engine, settings: Settings) -> None:
    for number in range(5):
        notary.sign(evaluation(f"t{number}"))
    notary._writer.close()
    [path] = closed_segments(settings.verdicts_dir)
    shutil.copy(path, settings.home / "copy")
    notary.deliver()
    shutil.copy(settings.home / "copy", path)
    assert deliver(engine, settings.verdicts_dir, settled_key(settings, engine)) == 5
    assert len(verdicts(engine)) == 5


def test_what_this_version_cannot_read_waits_and_is_named(
    notary: Notary, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.verdicts_dir.mkdir(parents=True)
    path = settings.verdicts_dir / "of-another-version.segment"
    write_closed_segment(path, [b"\x93\x01"])
    with pytest.raises(SegmentError, match=f"a verdict in {path} is none that this version can read"):
        notary.deliver()
    notary.close()
    assert path.exists()
    assert "verdicts wait in" in caplog.text
    path.unlink()


def test_while_postgresql_is_away_verdicts_wait_and_nobody_is_disturbed(settings: Settings, engine: Engine) -> None:
    with Notary(settings, engine) as notary:
        notary.check()
        away = connect("postgresql://nobody@127.0.0.1:1/none")
        notary._engine = away
        signed = notary.signed(evaluation())
        assert caws_of(signed).verdict_id
        with pytest.raises(DatabaseError, match="PostgreSQL cannot be used"):
            notary.deliver()
        away.dispose()
    assert verdicts(engine) == []
    with Notary(settings, engine) as notary:
        notary.deliver()
    assert [verdict.verdict_id for verdict in verdicts(engine)] == [caws_of(signed).verdict_id]


def test_an_evaluation_whose_verdict_cannot_be_written_down_goes_without_one_and_is_counted(
    settings: Settings, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    settings.home.mkdir(parents=True, exist_ok=True)
    settings.verdicts_dir.write_text("no folder")
    notary = Notary(settings, engine)
    notary.check()
    unsigned = notary.signed(evaluation())
    assert (unsigned.caws, notary.unsigned) == (UNSET, 1)
    assert "goes without a verdict" in caplog.text
    settings.verdicts_dir.unlink()
    assert caws_of(notary.signed(evaluation())).verdict_id
    notary.close()


@pytest.mark.parametrize("score", [float("nan"), 1.5, -0.1])
def test_a_score_that_is_none_is_not_signed(notary: Notary, score: float) -> None:
    assert notary.signed(evaluation(score=score)).caws is UNSET
    assert notary.unsigned == 1


def test_a_running_notary_goes_on_with_the_key_of_a_rotation(
    notary: Notary, engine: Engine, settings: Settings
) -> None:
    first = notary.signed(evaluation("before"))
    notary.deliver()
    waiting = notary.signed(evaluation("waits"))
    rotated = rotate(settings, engine, by="ann")
    notary.deliver()
    after = notary.signed(evaluation("after"))
    notary.deliver()
    assert rotated.id not in (caws_of(waiting).arbiter_signature or "")
    assert rotated.id in (caws_of(after).arbiter_signature or "")
    report = verify_trail(engine)
    assert (report.intact, report.verdicts, report.keys[-1]) == (True, 3, rotated.id)
    assert entry_of(engine, first).entry.sequence == 2


def test_a_forked_child_signs_with_files_and_threads_of_its_own(
    notary: Notary, engine: Engine, settings: Settings
) -> None:
    notary.sign(evaluation("parent"))
    child = os.fork()
    if child == 0:
        try:
            notary.sign(evaluation("child"))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    notary.deliver()
    assert {verdict.task_id for verdict in verdicts(engine)} == {"parent", "child"}
