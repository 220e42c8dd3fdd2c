"""Finds tests that a change deletes, skips, empties or weakens: Python, JavaScript, TypeScript, Java, Go, Rust."""

import difflib
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import Struct

from flywheel.arbiter.evaluation.change import Change, FileChange
from flywheel.arbiter.evaluation.hacking.files import (
    PYTHON,
    added_lines,
    is_named_as_test,
    is_test,
    language_of,
    paths_of,
)
from flywheel.arbiter.evaluation.hacking.finding import Finding
from flywheel.arbiter.evaluation.hacking.test_units import TestUnit, tests_in

SAME_BODY = 0.6
"""Likeness of bodies, 0–1, from which a test that is gone was renamed or merged into one that is new."""
_WHOLE_FILE_OFF = re.compile(
    r"^\s*(?:pytestmark\s*=.*\b(?:skip|skipif|xfail)\b|pytest\.skip\(.*allow_module_level|collect_ignore(?:_glob)?\s*="
    r"|__test__\s*=\s*False|raise\s+(?:unittest\.)?SkipTest\b|def\s+load_tests\b)"
)
_LITERAL = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|\b\d[\w.]*|\b(?:True|False|None|true|false|null)\b")
_SKIPS = re.compile(r"^\s*(?:self\.skipTest|cls\.skipTest|pytest\.skip)\s*\(|^\s*raise\s+(?:unittest\.)?SkipTest\b")
_SETS_UP = re.compile(r"^\s*(?:async\s+)?def\s+(?:\w*setUp\w*|\w*[Ss]etup\w*)\b")
_METHOD = re.compile(r"^\s+(?:async\s+)?def\s+(test\w*)", re.MULTILINE)
_FOCUSED = re.compile(r"^\s*(?:(?:it|test|describe)\.only\b|f(?:it|describe)\s*\()")


class _Placed(Struct, frozen=True):
    path: str
    unit: TestUnit


def find_weakened_tests(change: Change) -> Iterator[Finding]:
    """Tests that were there before the change and afterwards are gone, or ask less."""
    before, after = _units(change, "before"), _units(change, "after")
    names = {placed.unit.name for placed in before}
    new = [placed for placed in after if placed.unit.name not in names]
    by_name: defaultdict[str, list[_Placed]] = defaultdict(list)
    for placed in after:
        by_name[placed.unit.name].append(placed)
    yield from _gone(before, by_name, new)
    for old, now in _pairs(before, by_name):
        yield from _weakened(old, now)
    for file in change.files:
        if is_test(file.path):
            yield from _switched_off(file)
    yield from _uncollected(change)


def _units(change: Change, side: str) -> list[_Placed]:
    found = []
    for file in change.files:
        path = file.path if side == "after" else paths_of(file)[-1]
        text = getattr(file, side)
        language = language_of(path)
        if text is not None and language is not None and (is_test(path) or language == "rust"):
            found += [_Placed(path, unit) for unit in tests_in(text, language)]
    return found


def _gone(before: Sequence[_Placed], after: Mapping[str, list[_Placed]], new: Sequence[_Placed]) -> Iterator[Finding]:
    """Tests with fewer of their name than before, unless a new one has much the same body."""
    left = {name: len(placed) for name, placed in after.items()}
    for old in before:
        if left.get(old.unit.name, 0):
            left[old.unit.name] -= 1
            continue
        if old.unit.group or not old.unit.assertions:
            continue  # its tests are looked at one by one; what asserted nothing tested nothing
        heir = max((placed for placed in new if _like(old.unit, placed.unit)), key=_asks, default=None)
        if heir is not None:
            yield from _weakened(old, heir)
        else:
            evidence = f"the test {old.unit.name} is gone, with {len(old.unit.assertions)} assertions"
            yield Finding(name="deleted_test", path=old.path, line=old.unit.line, evidence=evidence)


def _asks(placed: _Placed) -> int:
    return len(placed.unit.assertions)


def _like(old: TestUnit, new: TestUnit) -> bool:
    """Whether a new test asks at least most of what an old one asked."""
    kept = set(new.assertions)
    if sum(assertion in kept for assertion in old.assertions) * 2 >= len(old.assertions):
        return True
    return difflib.SequenceMatcher(None, old.body, new.body, autojunk=False).quick_ratio() >= SAME_BODY and bool(
        new.assertions
    )


def _pairs(before: Sequence[_Placed], after: Mapping[str, list[_Placed]]) -> Iterator[tuple[_Placed, _Placed]]:
    """Each test with the one of its name afterwards: of its own file first, in their order."""
    waiting = {
        name: {path: deque(some) for path, some in groupby(placed, lambda one: one.path)}
        for name, placed in after.items()
    }
    for old in before:
        by_path = waiting.get(old.unit.name, {})
        path = old.path if by_path.get(old.path) else next((path for path, some in by_path.items() if some), None)
        if path is not None:
            yield old, by_path[path].popleft()


def _weakened(old: _Placed, now: _Placed) -> Iterator[Finding]:
    had, has = len(old.unit.assertions), len(now.unit.assertions)
    name = now.unit.name
    if now.unit.skipped and not old.unit.skipped:
        evidence = f"the test {name} ran before and is skipped now: {now.unit.skipped}"
        yield Finding(name="skipped_test", path=now.path, line=now.unit.line, evidence=evidence)
    elif had and not has:
        evidence = f"the test {name} had {had} assertions that could fail and has none"
        yield Finding(name="emptied_test", path=now.path, line=now.unit.line, evidence=evidence)
    elif has < had:
        lost = next((line for line in old.unit.assertions if line not in now.unit.assertions), "")
        evidence = f"the test {name} had {had} assertions and has {has}; one that is gone: {lost[:120]}"
        yield Finding(name="weakened_test", path=now.path, line=now.unit.line, evidence=evidence)
    else:
        yield from _changed_expectations(old, now)


def _changed_expectations(old: _Placed, now: _Placed) -> Iterator[Finding]:
    """Assertions of which only a value is another: what is asked is the same, what must come is not."""
    new = {_LITERAL.sub("…", line): line for line in now.unit.assertions if line not in old.unit.assertions}
    for line in old.unit.assertions:
        if line not in now.unit.assertions and (instead := new.get(_LITERAL.sub("…", line))):
            evidence = f"the test {now.unit.name} asked {line[:80]} and now asks {instead[:80]}"
            yield Finding(name="changed_expectation", path=now.path, line=now.unit.line, evidence=evidence)
            return


def _uncollected(change: Change) -> Iterator[Finding]:
    """Files and classes of tests under names by which no test runner finds them any more."""
    for file in change.files:
        old_path = paths_of(file)[-1]
        if file.after is not None and is_named_as_test(old_path) and not is_named_as_test(file.path):
            evidence = f"the tests of {old_path} are where no test runner looks for them"
            yield Finding(name="deleted_test", path=file.path, evidence=evidence)
        if language_of(file.path) == PYTHON and file.before is not None and file.after is not None:
            yield from _uncollected_classes(file, file.before, file.after)


def _uncollected_classes(file: FileChange, before: str, after: str) -> Iterator[Finding]:
    """Classes that pytest collects by their names alone, and that have other names now."""
    now = tests_in(after, PYTHON)
    groups = {unit.name for unit in now if unit.group}
    methods = {unit.name for unit in now if not unit.group and unit.marks.splitlines()[-1].startswith((" ", "\t"))}
    for unit in tests_in(before, PYTHON) if is_test(file.path) else ():
        head = unit.marks.splitlines()[-1]
        if not unit.group or "(" in head or not unit.name.startswith("Test") or groups - {unit.name}:
            continue
        if unit.name not in groups and methods & set(_METHOD.findall(unit.body)):
            evidence = f"the class {unit.name} has another name, by which its tests are not found"
            yield Finding(name="deleted_test", path=file.path, line=unit.line, evidence=evidence)


def _switched_off(file: FileChange) -> Iterator[Finding]:
    """Lines that switch off a whole file of tests that was there before, or all tests but one."""
    if file.before is None:
        return
    language = language_of(file.path)
    lines = (file.after or "").splitlines()
    for line in added_lines(file):
        if language == PYTHON and _SKIPS.match(line.text) and _sets_up(lines, line.number):
            evidence = f"what is set up for every test skips it: {line.text.strip()[:120]}"
            yield Finding(name="skipped_test", path=file.path, line=line.number, evidence=evidence)
        elif language == PYTHON and _WHOLE_FILE_OFF.match(line.text):
            evidence = f"all tests of the file are switched off: {line.text.strip()[:120]}"
            yield Finding(name="skipped_test", path=file.path, line=line.number, evidence=evidence)
        elif language == "javascript" and _FOCUSED.match(line.text):
            evidence = f"all other tests of the file are switched off: {line.text.strip()[:120]}"
            yield Finding(name="skipped_test", path=file.path, line=line.number, evidence=evidence)


def _sets_up(lines: Sequence[str], number: int) -> bool:
    """Whether the line is in what runs before every test."""
    heads = (line for line in reversed(lines[: number - 1]) if re.match(r"\s*(?:async\s+)?def\b", line))
    return bool(_SETS_UP.match(next(heads, "")))
