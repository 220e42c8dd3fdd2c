"""Runs a program that nobody trusts and the calls that test it; started by ``sandbox.py`` as a process of its own.

It reads one JSON document from standard input, ``{"program", "calls", "limits", "folder"}``, and writes JSON lines to
standard output: how the program is confined (``{"confined"}``, or ``{"broken"}`` where that failed), then
``{"call", "value"}`` or ``{"call", "error"}`` for each call, and at last ``{"ended"}``. Values are written as ``repr``
does. What the calls should give is not known here, so that no program can look it up.

It uses the standard library alone and is started with ``-I -S``: nothing of the surroundings is imported.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
NOBODY = 65534
LONGEST_VALUE = 4_000
CLONE_NEWUSER, CLONE_NEWNET, CLONE_NEWPID, CLONE_NEWIPC = 0x10000000, 0x40000000, 0x20000000, 0x08000000
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
READ_FILE, READ_DIR = 1 << 2, 1 << 3
FS_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15}  # from 5 on 16, or more that need not be named
TCP_SINCE_ABI = 4
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
# fork, vfork, clone and clone3 by architecture: its number in audit records, then those of its system calls.
PROCESS_CALLS = {"x86_64": (0xC000003E, (57, 58), 56, 435), "aarch64": (0xC00000B7, (), 220, 435)}
CLONE_THREAD, X32 = 0x00010000, 0x40000000  # from X32 on the same calls have second numbers
EPERM, ENOSYS = 1, 38
READABLE = {"/usr", "/lib", "/lib64", sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
libc = ctypes.CDLL(None, use_errno=True)


class TooSlowError(BaseException):
    """Raised in a call that takes too long. A program may swallow it; the processor's time limit it may not."""


def main() -> None:
    """Run the program in a child that is confined, and end it in time."""
    job = json.load(sys.stdin)
    results = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    namespaces = unshared()
    child = os.fork()
    if child == 0:
        run_confined(results, job, namespaces)
    late = False

    def end(_signal: int, _frame: object) -> None:
        nonlocal late
        late = True
        os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, job["limits"]["wall_s"])
    _, status = os.waitpid(child, 0)
    report(results, {"ended": "late" if late else os.waitstatus_to_exitcode(status)})


def run_confined(results: int, job: dict[str, Any], namespaces: tuple[str, ...]) -> None:
    """What the child does. It does not return."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()  # what it sends to its group reaches itself alone
    try:
        confined = (*namespaces, *confine(job["folder"], job["limits"]))
    except Exception as error:  # noqa: BLE001 - whatever it is, nothing runs unconfined
        report(results, {"broken": described(error)})
        os._exit(1)
    report(results, {"confined": confined})
    run(results, job["program"], job["calls"], job["limits"]["call_s"])
    os._exit(0)


def unshared() -> tuple[str, ...]:
    """Leave the network, other processes and their shared memory behind, as far as the kernel allows."""
    wanted = CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC
    for flags in (wanted, wanted | CLONE_NEWUSER):
        if libc.unshare(flags) == 0:
            return ("no network", "no other processes")
    return ()


def confine(folder: str, limits: dict[str, float]) -> tuple[str, ...]:
    """Give up rights and set limits; what is in force, in words."""
    done = ["processor time", "memory", "file size"]
    os.chdir(folder)
    if os.geteuid() == 0 and readable_by_anybody(Path(sys.base_prefix)):
        os.chown(folder, NOBODY, NOBODY)
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        done.append("user nobody")
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user takes it back
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if no_files_outside(folder):
        done.append("no files outside its folder and Python's")
    elif "user nobody" not in done:
        raise OSError("this kernel has no Landlock (Linux 5.13), so the files of this user cannot be protected")
    limit(resource.RLIMIT_CPU, limits["cpu_s"])
    limit(resource.RLIMIT_AS, limits["memory_bytes"])
    limit(resource.RLIMIT_FSIZE, limits["file_bytes"])
    limit(resource.RLIMIT_NOFILE, 32)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_NPROC, 0)
    refuse_processes()
    if no_new_processes():
        done.append("no new processes")
    return tuple(done)


def limit(kind: int, wanted: float) -> None:
    """Lower a limit; one that is lower already stays."""
    _, hard = resource.getrlimit(kind)
    value = int(wanted) if hard == resource.RLIM_INFINITY else min(int(wanted), hard)
    resource.setrlimit(kind, (value, value))


def readable_by_anybody(folder: Path) -> bool:
    """Whether another user gets there: Python's modules are still to be imported."""
    return all(parent.stat().st_mode & 0o001 for parent in (folder, *folder.resolve().parents))


def no_new_processes() -> bool:
    """Whether it is so: root's processes do not heed the limit, and a filter is not to be had everywhere."""
    try:
        child = os.fork()
    except OSError:
        return True
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return False


def refuse_processes() -> None:
    """A filter of system calls (seccomp) that lets threads begin but no processes, for root too."""
    machine = os.uname().machine
    if machine not in PROCESS_CALLS:
        return
    architecture, forks, clone, clone3 = PROCESS_CALLS[machine]
    load, equal, at_least, any_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06
    allow_it, refuse, unknown = 0x7FFF0000, 0x00050000 | EPERM, 0x00050000 | ENOSYS
    # glibc tries clone, whose flags a filter can read, where there is no clone3, whose flags it cannot.
    program = [(load, 0, 0, 4), (equal, 1, 0, architecture), (give, 0, 0, refuse), (load, 0, 0, 0)]
    program += [(at_least, 0, 1, X32), (give, 0, 0, refuse)]
    for number in forks:
        program += [(equal, 0, 1, number), (give, 0, 0, refuse)]
    program += [(equal, 0, 1, clone3), (give, 0, 0, unknown), (equal, 1, 0, clone), (give, 0, 0, allow_it)]
    program += [(load, 0, 0, 16), (any_bit, 1, 0, CLONE_THREAD), (give, 0, 0, refuse), (give, 0, 0, allow_it)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in program))
    described_by = struct.pack("@HP", len(program), ctypes.addressof(filters))
    libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, described_by, 0, 0)


def no_files_outside(folder: str) -> bool:
    """Landlock (Linux 5.13): whatever user this is, it gets at the folder, and reads where Python lives."""
    abi = libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if abi < 1:
        return False
    everything = (1 << FS_RIGHTS_BY_ABI.get(abi, 16)) - 1
    handled = struct.pack("=QQ", everything, 3)  # 3: to bind and to connect TCP
    size = len(handled) if abi >= TCP_SINCE_ABI else 8
    ruleset = libc.syscall(LANDLOCK_CREATE_RULESET, handled, ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    readable = [(path, READ_FILE | READ_DIR) for path in sorted(READABLE) if Path(path).is_dir()]
    allowed = all(allow(ruleset, path, rights) for path, rights in ((folder, everything), *readable))
    restricted: bool = allowed and libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return restricted


def allow(ruleset: int, path: str, rights: int) -> bool:
    """Add a rule."""
    opened = os.open(path, os.O_PATH)
    added: int = libc.syscall(LANDLOCK_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, opened), 0)
    os.close(opened)
    return added == 0


def run(results: int, program: str, calls: list[str], call_s: float) -> None:
    """Run the program, then each call, and report on each."""
    signal.signal(signal.SIGALRM, too_slow)
    names: dict[str, object] = {"__name__": "program"}
    _, error = attempt(lambda: exec(compile(program, "program.py", "exec"), names), call_s)  # noqa: S102 - its purpose
    if error:
        report(results, {"program": error})
        return
    for number, call in enumerate(calls):
        value, error = attempt(lambda: repr(eval(call, names)), call_s)  # noqa: B023, S307 - its purpose
        if error is None and len(str(value)) > LONGEST_VALUE:
            error = f"the value has more than {LONGEST_VALUE:,} characters"
        report(results, {"call": number, "error": error} if error else {"call": number, "value": value})


def attempt(work: Callable[[], T], seconds: float) -> tuple[T | None, str | None]:
    """What the work gives and None, or None and what went wrong."""
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            return work(), None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except TooSlowError:
        return None, f"no end after {seconds:g} s"
    except BaseException as error:  # noqa: BLE001 - a program may raise anything, exits included
        return None, described(error)


def described(error: BaseException) -> str:
    """An error in words; its own words may fail, too."""
    with contextlib.suppress(Exception):
        return f"{type(error).__name__}: {error}"[:300]
    return "an error that cannot be shown"


def too_slow(_signal: int, _frame: object) -> None:
    """End the call."""
    raise TooSlowError


def report(results: int, line: dict[str, object]) -> None:
    """Write one line."""
    os.write(results, json.dumps(line).encode() + b"\n")


if __name__ == "__main__":
    main()
