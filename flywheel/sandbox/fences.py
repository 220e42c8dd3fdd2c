"""What a command may see, and by what it is held: bubblewrap, namespaces of our own, or Landlock.

Each is tried once, in this order, with a command that does nothing; the first that holds it is used from then on.
"""

import glob
import os
import shutil
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

HERE = Path(__file__).parent
HOME = "/tmp/sandbox"  # noqa: S108 - in a file system of its own
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS = (
    *("alternatives", "ca-certificates", "group", "hosts", "java-*", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"),
    *("localtime", "mime.types", "nsswitch.conf", "passwd", "pki/tls/certs", "ssl/certs"),
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
DEVICE_LINKS = {
    "/dev/shm": "/tmp",  # noqa: S108 - as above
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
}
KEPT_RIGHTS = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SYS_PTRACE")

Step = tuple[str, str, str, int]
"""What to do, where, with what, and of what size in bytes."""


class Fence(StrEnum):
    """What holds a command. All of them use limits (rlimits) besides."""

    BUBBLEWRAP = "bubblewrap"
    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"


def default_readable() -> tuple[str, ...]:
    """What every command may read: the system's programs, this Python, and its settings that hold no secrets."""
    pythons = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    settings = (path for name in SETTINGS for path in sorted(glob.glob(f"/etc/{name}")))
    return tuple(path for path in (*SYSTEM, *sorted(pythons), *settings) if os.path.exists(path))


def steps_of(readable: Sequence[str], *, disk_bytes: int) -> list[Step]:
    """How the root of a command is built: an empty one, one place to write of a size, and what it may read."""
    steps: list[Step] = [("tmpfs", "/tmp", "", disk_bytes), ("proc", "/proc", "", 0)]  # noqa: S108 - as above
    steps += [("device", path, path, 0) for path in DEVICES]
    steps += [("symlink", path, target, 0) for path, target in DEVICE_LINKS.items()]
    bound: list[Path] = []
    for path in sorted(map(Path, dict.fromkeys(readable)), key=lambda path: len(path.parts)):
        if any(path.is_relative_to(one) for one in bound):
            continue
        if str(path) in SYSTEM and path.is_symlink():
            steps.append(("symlink", str(path), os.readlink(path), 0))
            continue
        bound.append(path)
        steps.append(("bind", str(path), os.path.realpath(path), 0))
    return steps


def bubblewrap() -> str | None:
    """The program, where it is installed."""
    return shutil.which("bwrap", path=os.environ.get("PATH", os.defpath))


def bubblewrap_arguments(program: str, steps: Sequence[Step]) -> list[str]:
    """The same root as bubblewrap builds it; what follows these arguments is run in it, as the first process."""
    arguments = [program, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    arguments += ["--die-with-parent", "--as-pid-1"]
    if os.geteuid() == 0:
        arguments += [word for right in KEPT_RIGHTS for word in ("--cap-add", right)]
    else:
        arguments += ["--unshare-user", "--uid", "1000", "--gid", "1000"]
    # Parents that it makes by itself nobody but root gets through.
    parents = {parent for _, target, _, _ in steps for parent in Path(target).parents[:-1]}
    made = sorted(str(parent) for parent in {*parents, *HERE.parents[:-1]})
    covered = {target for kind, target, _, _ in steps if kind in {"bind", "symlink"}}
    forms = {"bind": "--ro-bind", "device": "--dev-bind", "symlink": "--symlink"}
    for kind, target, source, size_bytes in steps:
        if kind == "tmpfs":
            arguments += ["--size", str(size_bytes), "--perms", "1777", "--tmpfs", target]
            arguments += [word for parent in made if parent not in covered for word in ("--dir", parent)]
        elif kind == "proc":
            arguments += ["--proc", target]
        else:
            arguments += [forms[kind], source, target]
    return [*arguments, "--ro-bind", str(HERE), str(HERE), "--remount-ro", "/", "--"]
