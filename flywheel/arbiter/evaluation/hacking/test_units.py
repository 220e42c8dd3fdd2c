"""Tests as they stand in a file, or in what a diff shows of one: name, what marks them, what they assert.

Read by lines and indentation, not by a grammar: the hunks of a diff are no whole files.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from flywheel.arbiter.evaluation.hacking.files import PYTHON, code_lines


class TestUnit(Struct, frozen=True, kw_only=True):
    """One test.

    Attributes:
        name: as it is called; several of one name are told apart by file and order.
        line: of its head, from 1.
        marks: the lines above it that mark it, and its head.
        body: the lines of its body, comments blanked.
        assertions: that can fail, and are reached.
        skipped: what skips it or expects it to fail, as written; None where nothing does.
        group: whether it is a class or a block of tests; its tests are units of their own.
    """

    __test__ = False  # for pytest: this is no test of ours

    name: str
    line: int
    marks: str
    body: str
    assertions: tuple[str, ...]
    skipped: str | None
    group: bool = False


class _Forms(Struct, frozen=True):
    head: re.Pattern[str]
    mark: re.Pattern[str]
    asserting: re.Pattern[str]
    skipping: re.Pattern[str]
    """In what marks a test: decorators, annotations, its head."""
    skipping_within: re.Pattern[str]
    """As a statement of its body."""


_NEVER = re.compile(r"(?!)")
_FORMS = {
    PYTHON: _Forms(
        re.compile(r"^(?P<indent>\s*)(?:async\s+)?(?:def|class)\s+(?P<name>[Tt]est\w*|\w*Tests?|\w*TestCase)\b"),
        re.compile(r"^\s*@"),
        re.compile(r"\bassert\b|\.assert\w+\s*\(|\bassert_\w+\s*\(|pytest\.(?:raises|warns)\b|\.fail\s*\("),
        re.compile(r"@(?:pytest\.mark\.|unittest\.|mark\.)?(?:skip|skipif|skipIf|skipUnless|xfail|expectedFailure)\b"),
        re.compile(
            r"^\s*(?:pytest\.(?:skip|xfail)|self\.skipTest)\s*\(|^\s*raise\s+(?:unittest\.)?SkipTest\b", re.MULTILINE
        ),
    ),
    "javascript": _Forms(
        re.compile(
            r"^(?P<indent>\s*)(?P<call>x?(?:it|test|describe)|f(?:it|describe))(?P<how>(?:\.\w+)*)\s*(?:\([^'\"`]*\)\s*)?"
            r"\(\s*(?P<quote>['\"`])(?P<name>.*?)(?P=quote)"
        ),
        _NEVER,
        re.compile(r"\bexpect\s*\(|\bassert(?:\.\w+)*\s*\(|\.should\b"),
        re.compile(r"^\s*(?:x(?:it|test|describe)\b|(?:it|test|describe)\.(?:skip|todo|failing|fixme)\b)"),
        re.compile(r"^\s*(?:this\.skip|test\.skip|pending)\s*\(", re.MULTILINE),
    ),
    "java": _Forms(
        re.compile(
            r"^(?P<indent>\s*)(?:(?:public|private|protected|static|final|suspend)\s+)*(?:void|fun)\s+(?P<name>\w+)\s*\("
        ),
        re.compile(r"^\s*@"),
        re.compile(r"\bassert\w*\s*[\(!]|\bassertThat\b|\bverify\s*\(|\bfail\s*\("),
        re.compile(r"@(?:Disabled|Ignore)\b|enabled\s*=\s*false"),
        re.compile(r"^\s*(?:assumeTrue\s*\(\s*false|assumeFalse\s*\(\s*true|throw new SkipException)", re.MULTILINE),
    ),
    "go": _Forms(
        re.compile(r"^(?P<indent>)func\s+(?:\([^)]*\)\s*)?(?P<name>Test\w*)\s*\("),
        _NEVER,
        re.compile(r"\bt\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\s*\(|\b(?:assert|require)\.\w+\s*\("),
        _NEVER,
        re.compile(r"^\s*t\.(?:Skip|Skipf|SkipNow)\s*\(", re.MULTILINE),
    ),
    "rust": _Forms(
        re.compile(r"^(?P<indent>\s*)(?:pub\s+)?(?:async\s+)?fn\s+(?P<name>\w+)\s*\("),
        re.compile(r"^\s*#\["),
        re.compile(r"\bassert\w*!\s*\(|\bpanic!\s*\(|\bunreachable!\s*\("),
        re.compile(r"#\[(?:ignore|should_panic)\b"),
        _NEVER,
    ),
}
_NEEDS_MARK = {
    "java": re.compile(r"@(?:\w*Test|ParameterizedTest|TestFactory)\b"),
    "rust": re.compile(r"#\[\w*(?:::)?test"),
}
_VACUOUS = (
    re.compile(r"\bassert\s*\(?\s*(?:True|1|not\s+False|not\s+None|true)\s*\)?\s*(?:,.*)?;?\s*$"),
    re.compile(r"\bassert\s+(?P<same>[^,=]+?)\s*(?:==|is)\s*(?P=same)\s*(?:,.*)?$"),
    re.compile(r"\bassert\b.*\bor\s+(?:True|1)\s*(?:,.*)?$"),
    re.compile(r"assert(?:True|_true|!)?\s*\(\s*(?:True|true|1)\s*(?:,.*)?\)"),
    re.compile(r"assert(?:False|_false)\s*\(\s*(?:False|false)\s*(?:,.*)?\)"),
    re.compile(r"assert(?:Equals?|_eq!?|_equal|SameAs|Is)\s*\(\s*(?P<same>[^,()]+?)\s*,\s*(?P=same)\s*(?:,.*)?\)"),
    re.compile(r"expect\s*\(\s*(?P<same>[^()]+?)\s*\)\.(?:toBe|toEqual|toStrictEqual)\s*\(\s*(?P=same)\s*\)"),
    re.compile(r"assert\.(?:ok|True|isTrue)\s*\(\s*(?:t\s*,\s*)?true\s*\)"),
)
_ENDS = re.compile(
    r"^\s*(?:return\b(?!.*\bexpect\b).*|pytest\.(?:skip|exit)\(.*|raise\s+SystemExit.*|(?:sys\.)?exit\(.*)$"
)
_SWALLOWS = re.compile(
    r"\bexcept\b\s*(?:\(?[^:\n]*\b(?:AssertionError|Exception|BaseException)\b[^:\n]*)?:\s*(?:\n\s*)?"
    r"(?:pass|return|continue|\.\.\.)"
    r"|\bcatch\s*(?:\([^)]*\))?\s*\{\s*\}|\bsuppress\([^)\n]*\b(?:AssertionError|Exception|BaseException)\b"
)
_NEVER_REACHED = re.compile(r"^\s*(?:if|while)\s*\(?\s*(?:False|0|None|not\s+True|false)\s*\)?\s*[:{]")
_GROUP = re.compile(r"^\s*(?:class\b|[xf]?describe\b)")
_CLOSER = re.compile(r"^\s*[)\]}]")


def tests_in(text: str, language: str) -> list[TestUnit]:
    """The tests of a file or of a part of one, in their order, with groups of tests as units of their own marks."""
    forms = _FORMS[language]
    lines = code_lines(text, language)
    units = []
    for at, line in enumerate(lines):
        head = forms.head.match(line)
        if head is None:
            continue
        marks = "\n".join([*_marks_above(lines, at, forms.mark), line])
        if language in _NEEDS_MARK and not _NEEDS_MARK[language].search(marks):
            continue
        first, end = _body_of(lines, at, indent=len(head["indent"].expandtabs(4)))
        body = "\n".join(lines[first:end])
        group = bool(_GROUP.match(line))
        skip = forms.skipping.search(marks) or (None if group else forms.skipping_within.search(body))
        units.append(
            TestUnit(
                name=head["name"],
                line=at + 1,
                marks=marks,
                body=body,
                assertions=() if group else tuple(_assertions(line, body, forms.asserting)),
                skipped=skip[0].strip() if skip else None,
                group=group,
            )
        )
    return units


def _marks_above(lines: Sequence[str], at: int, mark: re.Pattern[str]) -> list[str]:
    """Decorators and annotations directly above a head, also those of several lines."""
    indent = len(lines[at]) - len(lines[at].lstrip())
    above: list[str] = []
    for index in range(at - 1, -1, -1):
        line = lines[index]
        deeper = len(line) - len(line.lstrip()) > indent or bool(_CLOSER.match(line))
        if mark.match(line):
            above = list(lines[index:at])
        elif not line.strip() or not deeper:
            break
    return above


def _body_of(lines: Sequence[str], at: int, *, indent: int) -> tuple[int, int]:
    """From where to where the lines below a head are deeper than it, or close what it opened."""
    end = at + 1
    for index in range(at + 1, len(lines)):
        line = lines[index].expandtabs(4)
        if line.strip():
            depth = len(line) - len(line.lstrip())
            if depth <= indent and not (depth == indent and _CLOSER.match(line)):
                break
            end = index + 1
    return at + 1, end


def _assertions(head: str, body: str, asserting: re.Pattern[str]) -> Iterator[str]:
    """The assertions that can fail and are reached, as they stand; also one on the line of the head itself."""
    if _SWALLOWS.search(body):
        return
    lines = [line for line in body.splitlines() if line.strip() and not _CLOSER.match(line)]
    depths = [len(line) - len(line.lstrip()) for line in lines]
    least = min(depths, default=0)
    unreached: int | None = None
    for line, depth in zip([head, *lines], [0, *depths], strict=True):
        if unreached is not None and depth > unreached:
            continue
        unreached = depth if _NEVER_REACHED.match(line) else None
        if asserting.search(line):
            if not any(form.search(line) for form in _VACUOUS):
                yield line.strip()
        elif line is not head and depth == least and _ENDS.match(line):
            return
