"""Correct patches made longer than they need be: the same fix, with what agents put around it.

Deterministic by a seed. A whole file's new text is bloated; of a diff that is known by its hunks alone, each hunk's new
side, as nothing else of the file is known.
"""

import ast
import builtins
import keyword
import random
import re
import textwrap
from collections.abc import Callable

import msgspec

from flywheel.arbiter.evaluation.change import Change, FileChange
from flywheel.arbiter.evaluation.changed_lines import file_changes, lines_of
from flywheel.arbiter.evaluation.minimal_diff.trees import parsed
from flywheel.languages import Language, language_of_path

Bloater = Callable[[list[str], list[int], Language, random.Random], list[str]]
"""Takes the new lines, the rows that the fix added (at least one), the language and chance; gives the bloated lines."""

REMARKS = (
    "handle the edge case properly",
    "make sure the value is valid before it is used",
    "this was changed to fix the bug",
    "iterate over the elements and update the state",
    "NOTE: the previous version was wrong here",
    "compute the result step by step",
)
HOLDERS = frozenset({"block", "module", "class_body", "constructor_body", "program", "switch_block_statement_group"})
UNTOUCHED = frozenset({"import_statement", "import_from_statement", "package_declaration", "import_declaration"})
NAME = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|#.*|//.*|[.@]?\b[a-z_][a-z_0-9A-Z]*\b(?!\s*\()")
JAVA_WORDS = frozenset({
    "abstract", "boolean", "break", "byte", "case", "catch", "char", "class", "continue", "default", "do", "double",
    "else", "enum", "extends", "false", "final", "finally", "float", "for", "if", "implements", "import", "instanceof",
    "int", "interface", "java", "lang", "long", "new", "null", "package", "private", "protected", "public", "return",
    "short", "static", "super", "switch", "this", "throw", "throws", "true", "try", "util", "var", "void", "while",
})  # fmt: skip
PYTHON_WORDS = frozenset(keyword.kwlist) | frozenset(dir(builtins)) | {"self", "cls"}


def bloat(kind: str, file: FileChange, *, seed: int) -> FileChange:
    """The same change, bloated in one of the ways of ``BLOATERS``."""
    chance = random.Random(f"{kind} {seed}")
    added = [line.number for line in file_changes(file).added]
    if not file.hunks:
        rows = [number - 1 for number in added]
        return msgspec.structs.replace(file, after=_bloated(kind, file.after or "", rows, file.path, chance))
    hunks = []
    for hunk in file.hunks:
        size = len(lines_of(hunk.after))
        rows = [number - hunk.after_start for number in added if 0 <= number - hunk.after_start < size]
        hunks.append(msgspec.structs.replace(hunk, after=_bloated(kind, hunk.after, rows, file.path, chance)))
    return msgspec.structs.replace(file, hunks=tuple(hunks), after="".join(hunk.after for hunk in hunks))


def bloated_change(kind: str, change: Change, *, seed: int) -> Change:
    """All code files of a change, bloated; others stay."""
    files = (
        bloat(kind, file, seed=seed) if language_of_path(file.path) and file.after is not None else file
        for file in change.files
    )
    return Change(files=tuple(files))


def _bloated(kind: str, text: str, rows: list[int], path: str, chance: random.Random) -> str:
    language = language_of_path(path)
    assert language is not None
    lines = lines_of(text)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    rows = [row for row in rows if lines[row].strip()] or [row for row, line in enumerate(lines) if line.strip()][:1]
    return "".join(BLOATERS[kind](lines, rows, language, chance)) if rows else text


def comments(lines: list[str], rows: list[int], language: Language, chance: random.Random) -> list[str]:
    """A remark or two above each added line."""
    mark = "#" if language.name == "python" else "//"
    found = []
    for row, line in enumerate(lines):
        if row in rows:
            found += [f"{_indent(line)}{mark} {remark}\n" for remark in chance.sample(REMARKS, chance.randint(1, 2))]
        found.append(line)
    return found


def dead_code(lines: list[str], rows: list[int], language: Language, chance: random.Random) -> list[str]:
    """Statements that do nothing, above the statements of the fix."""
    found = list(lines)
    for number, (start, _) in enumerate(sorted(_statements(lines, rows, language), reverse=True)):
        indent = _indent(lines[start])
        name = f"unused_{number}"
        value = chance.randint(0, 99)
        if language.name == "python":
            dead = [f"{name} = {value}", f"if {name} > {value}:", f"    {name} = None"]
        else:
            dead = [f"int {name} = {value};", f"if ({name} > {value}) {{", f"    {name} = 0;", "}"]
        found[start:start] = [f"{indent}{line}\n" for line in dead]
    return found


def wrappers(lines: list[str], rows: list[int], language: Language, chance: random.Random) -> list[str]:
    """The statements of the fix within blocks that change nothing."""
    found = list(lines)
    python = [["if True:"], ["try:", "finally:", "    pass"], ["for _ in range(1):"]]
    java = [["if (true) {", "}"], ["try {", "} finally {", "}"], ["do {", "} while (false);"]]
    for start, end in sorted(_statements(lines, rows, language), reverse=True):
        head, *tail = chance.choice(python if language.name == "python" else java)
        indent = _indent(lines[start])
        inner = ["    " + line if line.strip() else line for line in found[start : end + 1]]
        around = [f"{indent}{head}\n", *inner, *(f"{indent}{line}\n" for line in tail)]
        found[start : end + 1] = around
    return found


def reformatting(lines: list[str], rows: list[int], language: Language, chance: random.Random) -> list[str]:
    """All lines as another formatter would have them: indentation, quotes, blanks around operators."""
    width = chance.choice([2, 3, 8])
    found = []
    for line in lines:
        indent = len(_indent(line).expandtabs(4))
        body = line.lstrip()
        if language.name == "python":
            quotes = body.count("'") and '"' not in body and "\\" not in body
            body = body.replace("'", '"') if quotes and not body.count("'") % 2 else body
            body = re.sub(r" (==|!=|<=|>=|\+|-|\*|=) ", r"\1", body) if not body.startswith("#") else body
        else:
            body = re.sub(r"\) \{$", ")\n" + " " * (indent // 4 * width) + "{", body.rstrip("\n")) + "\n"
        found.append(" " * (indent // 4 * width + indent % 4) + body if body.strip() else "\n")
    return found


def rewrite(lines: list[str], rows: list[int], language: Language, chance: random.Random) -> list[str]:
    """All of it written anew: other names, other statements, the same behaviour."""
    text = "".join(lines)
    if language.name == "python":
        try:
            return lines_of(ast.unparse(ast.fix_missing_locations(_Rewriter().visit(ast.parse(text)))) + "\n")
        except SyntaxError:
            pass  # a hunk is rarely a program
    words = PYTHON_WORDS if language.name == "python" else JAVA_WORDS
    end = "" if language.name == "python" else ";"
    declare = "" if language.name == "python" else "var "
    found = []
    for line in [NAME.sub(lambda match: _other_name(match[0], words), line) for line in lines]:
        returned = re.fullmatch(r"(\s*)return (?P<value>[^\n;]+);?\n", line)
        assigned = re.fullmatch(r"(\s*)(?P<name>[\w.]+) = (?P<value>[^\n;]+);?\n", line)
        grown = re.fullmatch(r"(\s*)(?P<name>[\w.]+) ([-+*])= (?P<value>[^\n;]+);?\n", line)
        if returned and _is_closed(returned["value"]):
            found += [
                f"{returned[1]}{declare}outcome = ({returned['value']}){end}\n",
                f"{returned[1]}return outcome{end}\n",
            ]
        elif grown and _is_closed(grown["value"]):
            name = grown["name"]
            found.append(f"{grown[1]}{name} = {name} {grown[3]} ({grown['value']}){end}\n")
        elif assigned and _is_closed(assigned["value"]):
            held = f"held_{chance.randint(1, 9)}"
            found += [f"{assigned[1]}{declare}{held} = {assigned['value']}{end}\n"]
            found += [f"{assigned[1]}{assigned['name']} = {held}{end}\n"]
        else:
            found.append(line)
    return found


BLOATERS: dict[str, Bloater] = {
    "comments": comments,
    "dead code": dead_code,
    "wrappers": wrappers,
    "reformatting": reformatting,
    "rewrite": rewrite,
}


class _Rewriter(ast.NodeTransformer):
    """Writes Python anew: names of locals, returns by way of a variable, branches the other way round."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        mine = {argument.arg for argument in node.args.args}
        mine |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and one.id in mine:
                one.id = f"the_{one.id}"
            elif isinstance(one, ast.arg) and one.arg in mine:
                one.arg = f"the_{one.arg}"
        self.generic_visit(node)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST | list[ast.stmt]:
        if node.value is None:
            return node
        kept = ast.Assign(targets=[ast.Name("outcome", ast.Store())], value=node.value)
        return [kept, ast.Return(ast.Name("outcome", ast.Load()))]

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if not isinstance(node.target, ast.Name):
            return node
        sum_ = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
        return ast.Assign(targets=[node.target], value=sum_)

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if not node.orelse:
            return node
        return ast.If(ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body)

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        stop = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
        return node if node.orelse else ast.While(ast.Constant(True), [stop, *node.body], [])


def _statements(lines: list[str], rows: list[int], language: Language) -> set[tuple[int, int]]:
    """First and last row of the innermost statements that begin in these rows, else that hold the first of them."""
    found = set()
    holding = None
    stack = [parsed(textwrap.dedent("".join(lines)), language).tree.root_node]
    while stack:
        node = stack.pop()
        parent = node.parent
        stack += node.named_children
        if parent is None or parent.type not in HOLDERS or node.type in UNTOUCHED or "comment" in node.type:
            continue
        start, end = node.start_point.row, node.end_point.row - (node.end_point.column == 0)
        if start in rows and lines[start].strip():
            found.add((start, end))
        if start <= rows[0] <= end and (holding is None or start >= holding[0]):
            holding = (start, end)
    inner = {one for one in found if not any(one != two and one[0] <= two[0] <= two[1] <= one[1] for two in found)}
    first = rows[0]
    return inner or {holding or (first, first)}


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())] if line.strip() else ""


def _other_name(name: str, words: frozenset[str]) -> str:
    known = not name.isidentifier() or name in words
    return name if known else f"the_{name}"


def _is_closed(value: str) -> bool:
    return all(value.count(one) == value.count(other) for one, other in ("()", "[]", "{}")) and value[-1] not in ",(\\"
