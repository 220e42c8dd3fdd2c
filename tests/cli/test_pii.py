"""``flywheel pii`` as a person types it: no services, values only where they are asked for."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flywheel.cli import main
from flywheel.pool.anonymization import spans

Run = Callable[..., Result]
PERSONAL = "write to ann@example.org or ann"
LABELS = [{"start": 9, "end": 24, "type": "EMAIL_ADDRESS"}, {"start": 28, "end": 31, "type": "PERSON"}]


@pytest.fixture
def flywheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs ``flywheel pii ARGUMENTS`` in an empty folder, without a database."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(main, ["--profile", "smoke", "pii", *arguments], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def write(path: Path, *records: object) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def test_scan_writes_a_line_of_spans_for_each_text(flywheel: Run, tmp_path: Path) -> None:
    source = write(tmp_path / "texts.jsonl", {"text": PERSONAL, "id": "a"}, {"text": "nothing"})
    result = flywheel("scan", "--input", source, "--output", str(tmp_path / "spans.jsonl"))
    assert result.exit_code == 0
    assert result.stderr == "2 texts, 1 spans\n"
    assert [json.loads(line) for line in (tmp_path / "spans.jsonl").read_text().splitlines()] == [
        {"id": "a", "spans": [{"start": 9, "end": 24, "type": "EMAIL_ADDRESS"}]},
        {"spans": []},
    ]


def test_scan_reads_stdin_and_writes_stdout_all_or_nothing(flywheel: Run) -> None:
    line = json.dumps({"text": PERSONAL})
    result = flywheel("scan", "--input", "-", "--output", "-", stdin=f"{line}\n{line}")
    assert result.stdout == '{"spans":[{"start":9,"end":24,"type":"EMAIL_ADDRESS"}]}\n' * 2
    broken = flywheel("scan", "--input", "-", "--output", "-", stdin=f"{line}\n{{")
    assert (broken.exit_code, broken.stdout) == (1, "")
    assert "flywheel: standard input:2: not JSON" in broken.stderr


def test_scan_of_nothing_is_nothing(flywheel: Run, tmp_path: Path) -> None:
    assert flywheel("scan", "--input", "-", "--output", "empty.jsonl", stdin="").exit_code == 0
    assert (tmp_path / "empty.jsonl").read_bytes() == b""


def test_a_file_that_is_not_there_is_named(flywheel: Run) -> None:
    result = flywheel("scan", "--input", "absent.jsonl", "--output", "-")
    assert result.exit_code == 1
    assert "absent.jsonl" in result.stderr


def test_evaluate_runs_our_detectors_and_masks_examples(flywheel: Run, tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl.gz"
    labels.write_bytes(gzip.compress(json.dumps({"text": PERSONAL, "spans": LABELS}).encode()))
    report = json.loads(flywheel("evaluate", "--labels", str(labels), "--json").stdout)
    assert (report["total"]["labels"], report["texts"]) == (2, 1)
    scores = {one["type"]: one for one in report["types"]}
    assert scores["EMAIL_ADDRESS"]["recall"]["value"] == 1.0
    shown = flywheel("evaluate", "--labels", str(labels))
    assert "all that must go" in shown.stdout
    assert "ann" not in shown.stdout


def test_evaluate_shows_values_only_when_asked(flywheel: Run, tmp_path: Path) -> None:
    labels = write(tmp_path / "labels.jsonl", {"text": PERSONAL, "spans": LABELS})
    theirs = write(tmp_path / "theirs.jsonl", {"spans": [{"start": 0, "end": 5, "type": "PERSON"}]})
    command = ("evaluate", "--labels", labels, "--predictions", theirs)
    masked, shown = flywheel(*command), flywheel(*command, "--show")
    assert "'xxx@xxxxxxx.xxx'" in masked.stdout
    assert "'xxxxx'" in masked.stdout  # found in vain
    assert "'ann@example.org'" in shown.stdout
    report = json.loads(flywheel(*command, "--json").stdout)
    assert (report["total"]["removed"], report["total"]["found"], report["total"]["right"]) == (0, 1, 0)
    assert report["missed"][0]["value"] == "xxx@xxxxxxx.xxx"


def test_what_scan_writes_evaluate_takes_for_predictions(flywheel: Run, tmp_path: Path) -> None:
    labels = write(tmp_path / "labels.jsonl", {"text": PERSONAL, "spans": LABELS})
    flywheel("scan", "--input", labels, "--output", "spans.jsonl")
    ours = flywheel("evaluate", "--labels", labels, "--json").stdout
    assert flywheel("evaluate", "--labels", labels, "--predictions", "spans.jsonl", "--json").stdout == ours


def test_bad_labels_are_named_by_file_and_line(flywheel: Run, tmp_path: Path) -> None:
    labels = write(tmp_path / "labels.jsonl", {"text": "a", "spans": []}, {"text": "a", "spans": [LABELS[0]]})
    result = flywheel("evaluate", "--labels", labels)
    assert result.exit_code == 1
    assert "labels.jsonl:2: the span 9–24 is not in the text of 1 characters" in result.stderr


def test_explain_marks_each_span_and_says_why(flywheel: Run) -> None:
    result = flywheel("explain", PERSONAL)
    assert "write to ⟦ann@example.org⟧1 or ann" in result.stdout
    assert "EMAIL_ADDRESS" in result.stdout
    assert spans.find_spans(PERSONAL)[0].reason in result.stdout
    assert "nothing was found" in flywheel("explain", "hello").stdout


def test_explain_reads_files_and_answers_programs(flywheel: Run, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(PERSONAL)
    (span,) = json.loads(flywheel("explain", "--input", "text.txt", "--json").stdout)["spans"]
    assert (span["start"], span["end"], span["type"]) == (9, 24, "EMAIL_ADDRESS")
    assert "⟦ann@example.org⟧1" in flywheel("explain", "--input", "-", stdin=PERSONAL).stdout


def test_explain_lets_no_text_command_the_terminal(flywheel: Run) -> None:
    result = flywheel("explain", "a\x1b[2Jb [red]c[/red] ann@example.org")
    assert "\x1b" not in result.stdout
    assert "a␛[2Jb [red]c[/red] ⟦ann@example.org⟧1" in result.stdout


def test_explain_takes_one_text(flywheel: Run) -> None:
    assert flywheel("explain").exit_code == 2
    assert flywheel("explain", "a", "--input", "-").exit_code == 2


def test_types_of_ones_own_are_found_by_every_command(flywheel: Run, tmp_path: Path) -> None:
    (tmp_path / "flywheel.toml").write_text(
        '[anonymization]\ntypes = [{name = "EMPLOYEE_NUMBER", pattern = "\\\\bEMP-\\\\d{6}\\\\b"}]\n'
    )
    span = {"start": 4, "end": 14, "type": "EMPLOYEE_NUMBER"}
    scanned = flywheel("scan", "--input", "-", "--output", "-", stdin='{"text": "ask EMP-123456"}')
    assert json.loads(scanned.stdout) == {"spans": [span]}
    assert "EMPLOYEE_NUMBER" in flywheel("explain", "ask EMP-123456").stdout
    labels = write(tmp_path / "labels.jsonl", {"text": "ask EMP-123456", "spans": [span]})
    assert json.loads(flywheel("evaluate", "--labels", labels, "--json").stdout)["total"]["removed"] == 1


def test_scan_asks_a_language_model_that_is_named_and_says_when_it_cannot(flywheel: Run, tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed; pip install 'arbiter-flywheel[presidio]'")
    pipeline = spacy.blank("en")
    pipeline.add_pipe("entity_ruler").add_patterns([{"label": "PERSON", "pattern": "Zqoro Vxilla"}])
    pipeline.to_disk(tmp_path / "names")
    command = ("scan", "--input", "-", "--output", "-", "--ner-model")
    found = flywheel(*command, str(tmp_path / "names"), stdin='{"text": "Zqoro Vxilla"}').stdout
    assert json.loads(found) == {"spans": [{"start": 0, "end": 12, "type": "PERSON"}]}
    missing = flywheel(*command, "en_nobody_has_this", stdin='{"text": "Zqoro Vxilla"}')
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "'en_nobody_has_this' is not installed" in missing.stderr
