"""Where code is found in a point, and that all of a point has one name for one thing."""

import json

import pytest

from flywheel.pool.anonymization.code.points import rename_code
from flywheel.pool.anonymization.places import Place
from tests.pool.anonymization.code.snippets import renamed_texts

PATCH = """\
--- a/shop/pay.py
+++ b/shop/pay.py
@@ -10,3 +10,4 @@ def settle(open_orders):
     def pay_all(self, amount_due):
-        return self.gateway.charge(amount_due)
+        fee_total = amount_due * 2
+        return self.gateway.charge(amount_due + fee_total)
\x20
"""


def test_both_sides_of_a_diff_and_the_prose_around_it_agree() -> None:
    said, again = renamed_texts(
        f"The bug is in `pay_all(amount_due)`; see `shop/pay.py`, and pay_all.\n```diff\n{PATCH}```\n"
        "Done: `amount_due`.",
        "```python\namount_due = 3\n```",
    )
    assert said == (
        "The bug is in `func2(var2)`; see `shop/pay.py`, and pay_all.\n```diff\n"
        "--- a/shop/pay.py\n+++ b/shop/pay.py\n@@ -10,3 +10,4 @@ def func1(var1):\n"
        "     def func2(self, var2):\n-        return self.gateway.charge(var2)\n"
        "+        var3 = var2 * 2\n+        return self.gateway.charge(var2 + var3)\n \n```\nDone: `var2`."
    )
    assert again == "```python\nvar2 = 3\n```"


def test_a_diff_needs_no_fence_and_names_its_language_itself() -> None:
    (clean,) = renamed_texts(PATCH)
    assert "amount_due" not in clean
    (readme,) = renamed_texts(PATCH.replace(".py", ".md"))
    assert readme == PATCH.replace(".py", ".md")
    (patch,) = renamed_texts(
        "*** Begin Patch\n*** Update File: a.ts\n@@\n-let oldName = 1;\n+let newName = 2;\n*** End Patch"
    )
    assert patch == "*** Begin Patch\n*** Update File: a.ts\n@@\n-let var1 = 1;\n+let var2 = 2;\n*** End Patch"


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "src/cart.py", "old_str": "grand = 1", "new_str": "grand = 2\nprint(grand)"},
        {"file_path": "/home/ann/cart.py", "edits": [{"old_string": "grand = 1", "new_string": "grand = 2"}]},
        {"language": "python", "code": "grand = 1"},
    ],
)
def test_arguments_of_tools_are_code_where_a_key_and_a_suffix_say_so(arguments: dict[str, object]) -> None:
    (clean,) = renamed_texts(json.dumps(arguments))
    assert clean == json.dumps(arguments).replace("grand", "var1")


def test_arguments_without_code_stay_byte_for_byte() -> None:
    text = '{"path":  "src/notes.md", "content": "grand = 1",\n "n": 1.0}'
    assert renamed_texts(text) == [text]


def test_the_result_of_reading_a_file_is_its_language() -> None:
    call = {"id": "c1", "name": "read_file", "arguments": '{"path": "src/cart.go"}'}
    numbered = "    1\tfunc addAll(given int) {\n    2\t\tgiven++\n    3\t}\n"
    result = {"role": "tool", "toolCallId": "c1", "content": numbered}
    rename_code([Place(call, "arguments", call["arguments"]), Place(result, "content", numbered)])
    assert result["content"] == "    1\tfunc func1(var1 int) {\n    2\t\tvar1++\n    3\t}\n"
    assert call["arguments"] == '{"path": "src/cart.go"}'


def test_a_whole_file_needs_no_fence_and_prose_is_no_code() -> None:
    assert renamed_texts("import os\n\ngiven = os.getcwd()\n") == ["import os\n\nvar1 = os.getcwd()\n"]
    for prose in ("import the data, then call Ann = me", "class rooms (all of them) are = full\nfor a in b", "a = b"):
        assert renamed_texts(prose) == [prose]


def test_a_fence_without_a_language_is_read_as_the_points_other_code() -> None:
    labelled, bare, shell = renamed_texts(
        "```python\ngiven = 1\n```", "```\nprint(given)\n```", "```sh\ngiven install given\n```"
    )
    assert (labelled, bare) == ("```python\nvar1 = 1\n```", "```\nprint(var1)\n```")
    assert shell == "```sh\ngiven install given\n```"


def test_what_one_text_declares_another_one_imports() -> None:
    first, second = renamed_texts(
        "```python\ndef settle_all(): ...\n```",
        "```python\nfrom shop.pay import settle_all, post\nsettle_all(post)\n```",
    )
    assert first == "```python\ndef func1(): ...\n```"
    assert second == "```python\nfrom shop.pay import func1, post\nfunc1(post)\n```"


def test_an_unclosed_fence_reaches_to_the_end() -> None:
    assert renamed_texts("see\n```py\ngiven = 1\nprint(given") == ["see\n```py\nvar1 = 1\nprint(var1"]
