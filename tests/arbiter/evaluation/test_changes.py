"""Changes read from unified diffs and from folders: the same files whichever way, and nothing from outside of them."""

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flywheel.arbiter.evaluation.change import Change, FileChange, change_of_text
from flywheel.arbiter.evaluation.changed_lines import changes_of, common_items, file_changes
from flywheel.arbiter.evaluation.folders import change_of_folders
from flywheel.arbiter.evaluation.patches import change_of_patch
from flywheel.errors import InputError

LINE = st.sampled_from(["", "a\n", "b\n", "  c\r\n", "d\n", "\n", "é\n", "+ e\n", "-- f\n", "@@ -1 +1 @@\n"])
TEXT = st.builds(
    lambda lines, last: "".join(lines) + last, st.lists(LINE, max_size=12), st.sampled_from(["", "no line feed"])
)
NAME = st.sampled_from(["a.py", "b.txt", "of it/c d.py", "é.py"])
FOLDER = st.dictionaries(NAME, TEXT, max_size=4)
MODIFIED = """\
--- a/shop/basket.py
+++ b/shop/basket.py
@@ -3,3 +3,3 @@ def total(items):
     whole = 0
-    for item in items[1:]:
+    for item in items:
         whole += item
@@ -20,2 +20,3 @@
 one
+two
 three
"""


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    folder.mkdir(exist_ok=True)
    return folder


def git_diff(before: Path, after: Path, *options: str) -> str:
    def git(work_tree: Path, *arguments: str) -> bytes:
        command = ["git", f"--git-dir={before.parent / 'git'}", f"--work-tree={work_tree}", "-c", "core.autocrlf=false"]
        return subprocess.run([*command, *arguments], capture_output=True, check=True, cwd=before.parent).stdout

    git(before, "init", "-q")
    git(before, "add", "-A", "--force")
    tree = git(before, "write-tree").decode().strip()
    git(after, "add", "-A", "--force")
    return git(after, "diff", "--cached", *options, tree).decode()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=FOLDER, after=FOLDER, context=st.integers(0, 3))
def test_gits_diff_applied_to_the_folder_is_what_the_folders_differ_in(
    before: dict[str, str], after: dict[str, str], context: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("change")
    old, new = written(place / "before", before), written(place / "after", after)
    patch = git_diff(old, new, "--no-renames", f"-U{context}")
    applied = change_of_patch(patch, folder=old)
    after_of = {file.path: file.after for file in applied.files}
    empty = {name for name in before.keys() ^ after.keys() if not (before | after)[name]}
    expected = {name: after.get(name) for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert {path: text for path, text in after_of.items() if path not in empty} == {
        path: text for path, text in expected.items() if path not in empty
    }


def test_a_diff_alone_shows_its_hunks_and_says_so() -> None:
    change = change_of_patch(MODIFIED)
    (file,) = change.files
    assert change.is_partial
    assert (file.path, len(file.hunks)) == ("shop/basket.py", 2)
    assert file.hunks[0].after == "    whole = 0\n    for item in items:\n        whole += item\n"
    assert file.after == file.hunks[0].after + "one\ntwo\nthree\n"
    (lines,) = changes_of(change)
    assert [(line.number, line.text) for line in lines.added] == [(4, "    for item in items:\n"), (21, "two\n")]
    assert [line.number for line in lines.removed] == [4]


def test_new_deleted_and_renamed_files_are_known_without_the_folder() -> None:
    new = "diff --git a/n.py b/n.py\nnew file mode 100644\n--- /dev/null\n+++ b/n.py\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    gone = "diff --git a/g.py b/g.py\ndeleted file mode 100644\n--- a/g.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n"
    moved = "diff --git a/o.py b/m.py\nsimilarity index 100%\nrename from o.py\nrename to m.py\n"
    mode = "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
    change = change_of_patch(new + gone + moved + mode)
    assert [(file.path, file.before, file.after, file.old_path) for file in change.files] == [
        ("g.py", "one\n", None, None),
        ("m.py", "", "", "o.py"),
        ("n.py", None, "one\ntwo\n", None),
    ]
    assert not change.is_partial


def test_an_emptied_file_is_not_a_deleted_one() -> None:
    emptied = "--- a/x\n+++ b/x\n@@ -1 +0,0 @@\n-a\n"
    assert change_of_patch(f"diff --git a/x b/x\nindex 7898192..e69de29 100644\n{emptied}").files[0].after == ""
    assert change_of_patch(emptied).files[0].after is None, "diff -N names a file that is not there"


def test_names_beyond_ascii_and_with_blanks_are_read() -> None:
    quoted = '--- "a/caf\\303\\251 \\"x\\".py"\n+++ "b/caf\\303\\251 \\"x\\".py"\n@@ -1 +1 @@\n-a\n+b\n'
    assert [file.path for file in change_of_patch(quoted).files] == ['café "x".py']


def test_a_missing_line_feed_at_the_end_belongs_to_the_line() -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"
    (file,) = change_of_patch(patch).files
    assert (file.before, file.after) == ("a\nb", "a\nb\n")


def test_windows_line_ends_of_the_file_stay_and_those_of_the_diff_go(tmp_path: Path) -> None:
    folder = written(tmp_path / "before", {"x": "a\r\nb\r\n"})
    patch = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n"
    assert change_of_patch(patch, folder=folder).files[0].after == "a\r\nc\r\n"
    assert change_of_patch(MODIFIED.replace("\n", "\r\n")) == change_of_patch(MODIFIED)


def test_hunks_that_moved_are_found_and_those_that_do_not_fit_are_named(tmp_path: Path) -> None:
    body = "    whole = 0\n    for item in items[1:]:\n        whole += item\n"
    folder = written(tmp_path / "before", {"shop/basket.py": "# new head\n" * 9 + body + "one\nthree\n"})
    (file,) = change_of_patch(MODIFIED, folder=folder).files
    assert file.after == "# new head\n" * 9 + body.replace("[1:]", "") + "one\ntwo\nthree\n"
    written(folder, {"shop/basket.py": body + "one\nfour\n"})
    with pytest.raises(InputError, match=r"my\.patch does not fit .*basket\.py.*@@ -20,2 are not there"):
        change_of_patch(MODIFIED, name="my.patch", folder=folder)


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "link/passwd"])
def test_no_file_outside_of_the_folder_is_read(tmp_path: Path, path: str) -> None:
    folder = written(tmp_path / "before", {"x": "a\n"})
    (folder / "link").symlink_to("/etc")
    with pytest.raises(InputError, match="out"):
        change_of_patch(f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n", folder=folder)


@pytest.mark.parametrize(
    "text",
    [
        "I have mended it.",
        "--- a/x\n+++ b/x\n@@ -1,5 +1,5 @@\n a\n",
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n" * 2,
        "--- a/x\n@@ -1 +1 @@\n-a\n+b\n",
    ],
)
def test_what_is_no_diff_is_refused_by_name(text: str) -> None:
    with pytest.raises(InputError, match=r"my\.patch"):
        change_of_patch(text, name="my.patch")


def test_no_diff_at_all_changes_nothing() -> None:
    assert change_of_patch("\n") == Change(files=())
    assert change_of_text("a.py", before="a\n", after="a\n") == Change(files=())


def test_a_file_to_be_added_must_not_be_there(tmp_path: Path) -> None:
    folder = written(tmp_path / "before", {"n.py": "here\n"})
    with pytest.raises(InputError, match=r"is in .* already"):
        change_of_patch("--- /dev/null\n+++ b/n.py\n@@ -0,0 +1 @@\n+one\n", folder=folder)


def test_folders_know_renamed_binary_and_linked_files_and_leave_caches_out(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(10))
    before = written(tmp_path / "before", {"old.py": text, "same.py": "s\n", "moved.py": "m\n", "__pycache__/x": "1"})
    after = written(tmp_path / "after", {"new.py": text.replace("3", "three"), "same.py": "s\n", "sub/moved.py": "m\n"})
    (before / "picture").write_bytes(b"\x00\x01")
    (after / "picture").write_bytes(b"\x00\x02")
    (after / "link").symlink_to("/etc/passwd")
    files = {file.path: file for file in change_of_folders(before, after).files}
    assert set(files) == {"new.py", "sub/moved.py", "picture", "link"}
    assert (files["new.py"].old_path, files["sub/moved.py"].old_path) == ("old.py", "moved.py")
    assert files["picture"] == FileChange(path="picture", before="", after="", binary=True)
    assert files["link"].after == "/etc/passwd"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    written(tmp_path, {"x": ""})
    with pytest.raises(InputError, match="is no folder"):
        change_of_folders(tmp_path, tmp_path / "x")


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_what_two_sequences_have_in_common_is_longest_and_in_order(one: list[int], other: list[int]) -> None:
    pairs = common_items(one, other)
    assert all(one[left] == other[right] for left, right in pairs)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(pairs))
    lengths = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for left, item in enumerate(one):
        for right, twin in enumerate(other):
            longer = max(lengths[left][right + 1], lengths[left + 1][right])
            lengths[left + 1][right + 1] = lengths[left][right] + 1 if item == twin else longer
    assert len(pairs) == lengths[-1][-1]


def test_lines_are_counted_by_what_differs_not_by_what_a_diff_claims() -> None:
    rewritten = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n-a\n-b\n-c\n+a\n+B\n+c\n"
    (file,) = change_of_patch(rewritten).files
    assert file_changes(file).count == 2
    assert file_changes(FileChange(path="x", before="a\nb\n", after="a\r\nb\n")).count == 2
