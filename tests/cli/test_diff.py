"""``flywheel diff score`` as a person types it: files, folders and patches, and what is wrong with them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flywheel.cli import main

BEFORE = "def total(items):\n    whole = 0\n    for item in items[1:]:\n        whole += item\n    return whole\n"
AFTER = BEFORE.replace("[1:]", "")
PATCH = """\
--- a/shop.py
+++ b/shop.py
@@ -1,5 +1,5 @@
 def total(items):
     whole = 0
-    for item in items[1:]:
+    for item in items:
         whole += item
     return whole
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files before and after, and a patch; it is the working folder."""
    for side, text in (("old", BEFORE), ("new", AFTER)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "shop.py").write_text(text)
    (tmp_path / "fix.patch").write_text(PATCH)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def score(*arguments: str, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(main, ["--profile", "smoke", "diff", "score", *arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.parametrize(
    "arguments",
    [
        ("--before", "old/shop.py", "--after", "new/shop.py"),
        ("--before", "old", "--after", "new"),
        ("--before", "old", "--patch", "fix.patch"),
    ],
)
def test_two_files_two_folders_and_a_patch_to_a_folder_score_the_same(
    workspace: Path, arguments: tuple[str, ...]
) -> None:
    document = json.loads(score(*arguments, "--json").stdout)
    assert document["metrics"]["fileTouchCount"] == 1
    assert 0.8 < document["metrics"]["astSimilarity"] < 1
    assert document["metrics"]["rewardMultiplier"] == pytest.approx(
        0.3 + 0.7 * document["metrics"]["astSimilarity"], abs=1e-9
    )
    assert (document["addedLines"], document["removedLines"], document["partial"]) == (1, 1, False)
    assert document["files"][0]["path"] == "shop.py"


def test_a_patch_alone_is_scored_by_its_hunks_and_says_so(workspace: Path) -> None:
    shown = score("--patch", "-", stdin=PATCH)
    assert shown.exit_code == 0
    assert "No more than the hunks of a patch is known" in shown.stdout
    assert "shop.py" in shown.stdout
    assert "python tree" in shown.stdout


def test_what_lowered_the_multiplier_is_shown(workspace: Path) -> None:
    (workspace / "new" / "shop.py").write_text("# remark\n# another\n# a third\n" + AFTER + "\ndef noop():\n    pass\n")
    shown = score("--before", "old", "--after", "new").stdout
    assert "scaffolding: new functions that do nothing: noop" in shown
    assert "similarity 0." in shown


def test_no_change_has_the_highest_multiplier(workspace: Path) -> None:
    shown = score("--before", "old", "--after", "old").stdout
    assert shown.startswith("multiplier   1.000\n")
    assert "what lowered it" not in shown


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (("--before", "old"), 2, "give --before and --after, or --patch"),
        (("--before", "old", "--after", "new", "--patch", "fix.patch"), 2, "give --before and --after, or --patch"),
        (("--before", "old", "--after", "new/shop.py"), 1, "old and new/shop.py are a file and a folder"),
        (("--before", "new", "--patch", "fix.patch"), 1, "fix.patch does not fit new/shop.py"),
        (("--before", "old/shop.py", "--patch", "fix.patch"), 1, "old/shop.py is no folder"),
        (("--patch", "absent.patch"), 1, "absent.patch"),
        (("--patch", "old/shop.py"), 1, "old/shop.py changes no file: it is no unified diff"),
    ],
)
def test_what_cannot_be_compared_is_named(
    workspace: Path, arguments: tuple[str, ...], exit_code: int, said: str
) -> None:
    result = score(*arguments)
    assert result.exit_code == exit_code
    assert said in result.stderr
