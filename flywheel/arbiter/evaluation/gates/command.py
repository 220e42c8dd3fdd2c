"""A command that must end well: its exit code 0 is 1, any other 0. Others gates build on it."""

import re
import shlex
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from flywheel.arbiter.evaluation.gates.gate import Candidate, Evidence, Gate, Outcome
from flywheel.sandbox.sandbox import Ran

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # of shells, for what they were to start
FIRST_LINES, LAST_LINES = 15, 45
LONGEST_LINE = 400
SHELL_WORDS = frozenset({"&&", "||", "|", ";", ">", ">>", "<", "&"})


def as_words(command: Any) -> Any:
    """A command line as its words. There is no shell, so that what looks like one's is an error."""
    if not isinstance(command, str):
        return command
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"{error}: write it as a list of words") from None
    if found := sorted(SHELL_WORDS.intersection(words)):
        raise ValueError(f"{' '.join(found)} is for a shell and there is none; write [sh, -c, '…']")
    return words


Command = Annotated[
    tuple[str, ...],
    BeforeValidator(as_words),
    Field(min_length=1, description="a command line, without a shell, or a list of words"),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]


class CommandGate(Gate):
    """Base of the gates that run a command in a fresh copy of the workspace, in a sandbox."""

    command: Command
    timeout_s: float = Field(300.0, gt=0, le=86_400, description="seconds after which it is ended, and has failed")

    def check(self, candidate: Candidate) -> Outcome:
        """Run it and judge what became of it."""
        ran = candidate.commands.run(self.command, timeout_s=self.timeout_s)
        evidence = evidence_of(self.command, ran)
        missing = missing_program(self.command, ran)
        if missing is not None:
            return Outcome(score=0.0, reason=missing, evidence=evidence, error=missing)
        return self.judge(candidate, ran, evidence)

    def judge(self, candidate: Candidate, ran: Ran, evidence: Evidence) -> Outcome:  # noqa: ARG002 - others look at it
        """The outcome of a command that ran."""
        return Outcome(score=float(ran.succeeded), reason=ending(ran), evidence=evidence)


class OwnCommand(CommandGate):
    """Any other command that must end well, under a name of its own."""

    gate: Literal["command"]
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$", description="its name in verdicts")


def ending(ran: Ran) -> str:
    """How a command ended, in words."""
    if ran.ended is not None:
        return ran.ended
    left = f"; it left {ran.left} processes running, which were ended" if ran.left else ""
    return f"exit code {ran.exit_code}{left}"


def missing_program(command: tuple[str, ...], ran: Ran) -> str | None:
    """Why a command could not be run at all, in words; None where it ran."""
    if ran.not_started is not None:
        return f"{command[0]} cannot be started: {ran.not_started}; install it, or name its folder under readable"
    output = ran.output.decode(errors="replace")
    if ran.exit_code in {NOT_FOUND, NOT_EXECUTABLE}:
        last = output.strip().splitlines()[-1:] or ["it says no more"]
        return f"a program is missing: {last[0][:LONGEST_LINE]}"
    if ran.exit_code == 1 and "-m" in command[:-1]:
        module = command[command.index("-m") + 1]
        if re.search(rf"^\S+: No module named '?{re.escape(module)}'?$", output.strip(), re.MULTILINE):
            return f"{command[0]} has no module {module}"
    return None


def evidence_of(command: tuple[str, ...], ran: Ran) -> Evidence:
    """What is kept of a command."""
    return Evidence(
        command=command,
        exit_code=ran.exit_code,
        output=excerpt(ran.output.decode(errors="replace")),
        seconds=round(ran.seconds, 3),
        confined=ran.confined,
    )


def excerpt(output: str) -> str:
    """How an output begins, and its end, where tools sum up; without what terminals are told."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output)
    lines = [line[:LONGEST_LINE].rstrip() for line in plain.strip().splitlines()]
    if len(lines) <= FIRST_LINES + LAST_LINES:
        return "\n".join(lines)
    left_out = len(lines) - FIRST_LINES - LAST_LINES
    return "\n".join((*lines[:FIRST_LINES], f"… {left_out:,} lines …", *lines[-LAST_LINES:]))
