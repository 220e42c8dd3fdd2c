"""Which files hold tests, and as which language these are read."""

import pytest

from flywheel.arbiter.evaluation.hacking.files import is_named_as_test, language_of
from flywheel.languages import BY_SUFFIX


def test_every_suffix_of_a_language_whose_tests_are_read_is_known() -> None:
    read_as = {suffix: language_of(f"src/total{suffix}") for suffix in BY_SUFFIX}
    assert {suffix for suffix, language in read_as.items() if language is None} == {
        *(".c", ".h", ".cpp", ".cc", ".cxx", ".hpp", ".hh", ".hxx", ".cu")
    }
    assert {suffix for suffix, language in read_as.items() if language == "javascript"} == {
        *(".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
    }
    assert {suffix for suffix, language in read_as.items() if language == "python"} == {".py", ".pyi", ".pyw"}
    assert (read_as[".java"], read_as[".go"], read_as[".rs"]) == ("java", "go", "rust")


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("tests/test_total.py", True),
        ("src/total.test.mts", True),
        ("src/total.spec.cts", True),
        ("src/test/kotlin/TotalTest.kt", True),
        ("total_test.go", True),
        ("src/total.ts", False),
        ("tests/conftest.py", False),
        ("tests/test_total.txt", False),
        ("tests/test_total", False),
    ],
)
def test_a_file_is_named_as_tests_are_in_its_language(path: str, named: bool) -> None:
    assert is_named_as_test(path) == named
