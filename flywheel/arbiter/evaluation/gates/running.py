"""Runs the commands of gates, each in a fresh copy of the workspace with the change applied."""

import math
import posixpath
from collections.abc import Sequence
from pathlib import Path

import msgspec

from flywheel.arbiter.evaluation.change import Change, FileChange
from flywheel.arbiter.evaluation.working_spec.spec import WorkingSpec
from flywheel.errors import InputError
from flywheel.sandbox import sandbox
from flywheel.sandbox.fences import Fence
from flywheel.sandbox.sandbox import Limits, Ran
from flywheel.sandbox.workspace import Workspace

HISTORIES = (".git", ".hg", ".svn")
"""Never copied: what was written later could be looked up in them."""


class SandboxedCommands:
    """The commands of a spec's gates on one workspace.

    Gates that ask for the same command share one run of it, such as tests that measure coverage, too. Reports that lie
    in the workspace are not copied: one that the command did not write says nothing of it.
    """

    def __init__(self, spec: WorkingSpec, workspace: Workspace, *, fence: Fence | None = None) -> None:
        self._spec = spec
        self._fence = fence
        self._reports = sorted({report for gate in spec.gates for report in gate.reports})
        none: dict[str, None] = {posixpath.normpath(report): None for report in self._reports}
        self._workspace = msgspec.structs.replace(workspace, files={**workspace.files, **none})
        self._ran: dict[tuple[tuple[str, ...], float], Ran] = {}

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Ran:
        """What became of a command.

        Raises:
            SandboxError: nothing here can confine it. It was not run.
        """
        key = (tuple(argv), timeout_s)
        if key not in self._ran:
            self._ran[key] = sandbox.run(
                argv,
                self._workspace,
                limits=self._limits(timeout_s),
                readable=self._spec.readable,
                environment=self._spec.environment,
                collect=self._reports,
                fence=self._fence,
            )
        return self._ran[key]

    def _limits(self, timeout_s: float) -> Limits:
        given = self._spec.limits
        return Limits(
            wall_s=timeout_s,
            cpu_s=math.ceil(timeout_s) + 1,
            memory_bytes=given.memory_mb << 20,
            disk_bytes=given.disk_mb << 20,
            processes=given.processes,
        )


def workspace_of(change: Change, *, before: Path, after: Path | None = None) -> Workspace:
    """The folder before with the change put over it, and nothing else of the folder after.

    What is no part of a change, such as installed packages and caches, so comes from before, whatever the one who made
    the change did to it.

    Raises:
        InputError: of a file no more than parts of it are known, or its bytes are not.
    """
    files: dict[str, str | bytes | Path | None] = {
        file.old_path: None for file in change.files if file.old_path is not None
    }
    files |= {file.path: _content(file, before=before, after=after) for file in change.files}
    return Workspace(folder=before, files=files, excluded=HISTORIES)


def _content(file: FileChange, *, before: Path, after: Path | None) -> str | Path | None:
    if file.after is None:
        return None
    if after is not None:
        return after / file.path
    if file.hunks or file.binary:
        raise InputError(f"{file.path} is not known whole from the patch; name the folder after the change instead")
    old = before / (file.old_path or file.path)
    if file.before is not None and old.read_bytes() != file.before.encode():
        raise InputError(
            f"{old} is not in UTF-8, so that a patch cannot be put over it; name the folder after the change"
        )
    return file.after
