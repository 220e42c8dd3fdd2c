"""A watched folder's files are taken when they are no longer written to, each once."""

from pathlib import Path

from flywheel.collection.importers import registry
from flywheel.collection.importers.agentdojo import AgentDojo
from flywheel.collection.importers.interface import AnyImporter, is_gatherer
from flywheel.collection.importers.otlp_files import OtlpFiles
from flywheel.collection.ingest import Request
from flywheel.collection.mapping import Mapping, RewardMapping
from flywheel.collection.watching import watched

CURATED = Request(mapping=Mapping(reward=RewardMapping(constant=1.0)))
CHAT = '{"messages":[{"role":"user","content":"%s"},{"role":"assistant","content":"yes"}]}\n'


class EndedError(Exception):
    """The watching ends."""


def test_a_file_is_taken_when_two_looks_found_it_the_same(tmp_path: Path) -> None:
    folder, looks = tmp_path / "in", 0
    folder.mkdir()

    def sleep(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            (folder / "a.jsonl").write_text(CHAT % "a")
        elif looks == 2:
            (folder / "a.jsonl").write_text(CHAT % "a" + CHAT % "b")  # it is still written to
        elif looks == 5:
            (folder / "b.jsonl").write_text(CHAT % "c")
        elif looks == 9:
            raise EndedError

    found = []
    try:
        for report in watched(folder, tmp_path / "segments", CURATED, every_s=1, sleep=sleep):
            found.append((looks, report.points))  # noqa: PERF401 - the watching ends by an exception
    except EndedError:
        pass
    assert found == [(3, 2), (6, 1)]


def test_what_was_taken_before_a_new_start_is_not_taken_again(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text(CHAT % "a")

    def first_report() -> int:
        calls = 0

        def sleep(seconds: float) -> None:
            nonlocal calls
            calls += 1
            if calls > 4:
                raise EndedError

        try:
            return next(watched(tmp_path / "in", tmp_path / "segments", CURATED, every_s=1, sleep=sleep)).points
        except EndedError:
            return 0

    assert (first_report(), first_report()) == (1, 0)


def test_an_importer_of_another_package_is_found_by_its_entry_point() -> None:
    from importlib.metadata import EntryPoint

    value = "flywheel.collection.importers.agentdojo:AgentDojo"
    found = registry.of_entry_point(EntryPoint(name="theirs", value=value, group=registry.GROUP))
    assert found.name == "agentdojo"


def test_an_importer_of_another_package_may_have_rows_of_its_own() -> None:
    class Theirs(AgentDojo):
        def rows(self) -> list[str]:
            return []

    some: tuple[AnyImporter, ...] = (Theirs(), AgentDojo(), OtlpFiles())
    assert [is_gatherer(importer) for importer in some] == [False, False, True]
