"""Calls of Linux that the standard library lacks: namespaces, mounts, Landlock, seccomp, limits.

The standard library alone: the warden imports it before anything else is to be had.
"""

import ctypes
import fcntl
import os
import resource
import socket
import struct
from collections.abc import Iterable
from typing import NamedTuple

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID = 0x1, 0x2
MOUNT_SETATTR = 442  # as on all architectures, like those of Landlock
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
FS_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15}  # from 5 on 16, or more that need not be named
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 36, 38
SECCOMP_MODE_FILTER = 2
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
CLONE_THREAD, X32 = 0x00010000, 0x40000000  # from X32 on the same calls have second numbers
EPERM, ENOSYS = 1, 38


class Calls(NamedTuple):
    """Numbers of system calls on one architecture, and its own in audit records."""

    architecture: int
    forks: tuple[int, ...]
    clone: int
    socket: int
    ipc: tuple[int, ...]
    signals: tuple[int, ...]
    prlimit: int


SYSTEM_CALLS = {
    "x86_64": Calls(0xC000003E, (57, 58), 56, 41, (29, 64, 68, 240), (62, 129, 200, 234, 297), 302),
    "aarch64": Calls(0xC00000B7, (), 220, 198, (194, 190, 186, 180), (129, 130, 131, 138, 240), 261),
}
CLONE3, IO_URING_SETUP, PIDFD_SEND_SIGNAL = 435, 425, 424  # the same on all
LOAD, EQUAL, AT_LEAST, ANY_BIT, GIVE = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
ALLOW, REFUSE, UNKNOWN = 0x7FFF0000, 0x00050000 | EPERM, 0x00050000 | ENOSYS
Instruction = tuple[int, int, int, int]
libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Leave namespaces behind.

    Raises:
        OSError: the kernel, or what holds this process already, forbids it.
    """
    _checked(libc.unshare(flags), "unshare")


def map_user(inside: int) -> None:
    """In a new user namespace: be the user of this number."""
    uid, gid = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER)
    for name, line in (("setgroups", "deny"), ("uid_map", f"{inside} {uid} 1"), ("gid_map", f"{inside} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(line)


def raise_loopback() -> None:
    """A new network has a loopback device of its own, which is down: servers under test need it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        flags = struct.unpack("16xH22x", fcntl.ioctl(control, SIOCGIFFLAGS, struct.pack("16s24x", b"lo")))[0]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags | IFF_UP))


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """mount(2)."""
    arguments = (source.encode(), target.encode(), kind.encode() if kind else None)
    _checked(libc.mount(*arguments, ctypes.c_ulong(flags), options.encode() or None), f"mount {target}")


def make_readonly(target: str, *, recursive: bool = True) -> None:
    """Nothing under a mount can be written any more (Linux 5.12)."""
    attributes = struct.pack("=QQQQ", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, 0, 0, 0)
    flags = AT_RECURSIVE if recursive else 0
    done = libc.syscall(MOUNT_SETATTR, AT_FDCWD, target.encode(), flags, attributes, ctypes.c_size_t(len(attributes)))
    _checked(done, f"make {target} read-only")


def pivot_root(new: str, old: str) -> None:
    """Make a mount the root; the old root is under ``old`` then."""
    _checked(libc.pivot_root(new.encode(), old.encode()), "pivot_root")


def unmount(target: str) -> None:
    """Take a mount away, at the latest when nobody uses it any more."""
    _checked(libc.umount2(target.encode(), MNT_DETACH), f"unmount {target}")


def control(option: int, value: int) -> None:
    """prctl(2)."""
    _checked(libc.prctl(option, value, 0, 0, 0), f"prctl {option}")


def limit(kind: int, wanted: int, *, spare: int = 0) -> None:
    """Lower a limit; one that is lower already stays. ``spare`` is what the hard limit is above the soft one."""
    _, hard = resource.getrlimit(kind)
    most = wanted + spare if hard == resource.RLIM_INFINITY else min(wanted + spare, hard)
    resource.setrlimit(kind, (min(wanted, most), most))


def landlock(rights: Iterable[tuple[str, int]]) -> bool:
    """Allow these paths with these rights and no other file (Linux 5.13); False where there is no Landlock."""
    abi = libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if abi < 1:
        return False
    everything = (1 << FS_RIGHTS_BY_ABI.get(abi, 16)) - 1
    handled = struct.pack("=Q", everything)
    ruleset = libc.syscall(LANDLOCK_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0)
    if ruleset < 0:
        return False
    allowed = all(_allow(ruleset, path, wanted & everything) for path, wanted in rights)
    restricted: bool = allowed and libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return restricted


def _allow(ruleset: int, path: str, rights: int) -> bool:
    opened = os.open(path, os.O_PATH)
    added: int = libc.syscall(LANDLOCK_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, opened), 0)
    os.close(opened)
    return added == 0


def refuse_calls(*, processes: bool = False, meeting: bool = False, others: bool = False) -> bool:
    """A filter of system calls (seccomp), for root too.

    ``processes``: no new ones but threads. ``meeting``: no places to meet others at: no sockets but pairs, and no
    shared memory, semaphores and queues of System V and POSIX, which outlive who made them besides. ``others``: no
    signals to, no limits of others.
    False where it is not to be had: another architecture, or a kernel without it.
    """
    calls = SYSTEM_CALLS.get(os.uname().machine)
    if calls is None:
        return False
    program = _filter(calls, processes=processes, meeting=meeting, others=others)
    filters = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in program))
    described_by = struct.pack("@HP", len(program), ctypes.addressof(filters))
    done: int = libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, described_by, 0, 0)
    return done == 0


def _filter(calls: Calls, *, processes: bool, meeting: bool, others: bool) -> list[Instruction]:
    program = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, calls.architecture), (GIVE, 0, 0, REFUSE)]
    program += [(LOAD, 0, 0, NUMBER), (AT_LEAST, 0, 1, X32), (GIVE, 0, 0, REFUSE)]
    refused = [*((calls.socket, IO_URING_SETUP, *calls.ipc) if meeting else ())]  # what io_uring does no filter sees
    refused += [*(calls.forks if processes else ()), *((*calls.signals, PIDFD_SEND_SIGNAL) if others else ())]
    for number in refused:
        program += [(EQUAL, 0, 1, number), (GIVE, 0, 0, REFUSE)]
    if others:  # its own limits go by the process number 0
        program += [(EQUAL, 0, 4, calls.prlimit), (LOAD, 0, 0, FIRST_ARGUMENT), (EQUAL, 1, 0, 0), (GIVE, 0, 0, REFUSE)]
        program += [(GIVE, 0, 0, ALLOW)]
    if processes:
        # glibc tries clone, whose flags a filter can read, where there is no clone3, whose flags it cannot.
        program += [(EQUAL, 0, 1, CLONE3), (GIVE, 0, 0, UNKNOWN), (EQUAL, 1, 0, calls.clone), (GIVE, 0, 0, ALLOW)]
        program += [(LOAD, 0, 0, FIRST_ARGUMENT), (ANY_BIT, 1, 0, CLONE_THREAD), (GIVE, 0, 0, REFUSE)]
    return [*program, (GIVE, 0, 0, ALLOW)]


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
