"""A root of its own for a command, out of namespaces and mounts: what is not named in its steps is not there."""

import os
import signal
from pathlib import Path
from typing import Any

from flywheel.sandbox import kernel

USER_INSIDE = 1000
BASE = "/tmp"  # noqa: S108 - covered by a file system of its own before it is used


def enter_namespaces(steps: list[list[Any]]) -> None:
    """Go on as the first process of new namespaces, in a root that holds what the steps name and nothing else."""
    if os.geteuid() != 0:
        kernel.map_user(USER_INSIDE)
    kernel.unshare(
        kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
    )
    kernel.control(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # rights in a new user namespace take it back
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    kernel.control(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # with the first process all others go
    kernel.raise_loopback()
    build_root(steps)


def build_root(steps: list[list[Any]]) -> None:
    """Mount what the steps name into a new root and leave the old one."""
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", BASE, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755")
    Path(BASE, "old").mkdir()
    kernel.pivot_root(BASE, f"{BASE}/old")
    os.chdir("/")
    Path("/new").mkdir()
    kernel.mount("tmpfs", "/new", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755")
    for step in steps:
        perform(*step)
    os.chdir("/new")
    kernel.pivot_root(".", ".")
    kernel.unmount(".")  # the first root, with the old one in it
    os.chdir("/")
    kernel.make_readonly("/", recursive=False)


def perform(kind: str, target: str, source: str = "", size_bytes: int = 0) -> None:
    """One step of a new root."""
    place = Path("/new" + target)
    place.parent.mkdir(parents=True, exist_ok=True)
    if kind == "symlink":
        place.symlink_to(source)
        return
    old = Path("/old" + source)
    if kind in {"tmpfs", "proc"} or old.is_dir():
        place.mkdir(exist_ok=True)
    else:
        place.touch()
    if kind == "tmpfs":
        options = f"size={size_bytes},mode=1777"
        kernel.mount("tmpfs", str(place), "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, options)
    elif kind == "proc":
        kernel.mount("proc", str(place), "proc", kernel.MS_NOSUID | kernel.MS_NODEV)
    else:
        kernel.mount(str(old), str(place), None, kernel.MS_BIND | kernel.MS_REC)
        if kind == "bind":
            kernel.make_readonly(str(place))
