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
# By architecture: its number in audit records, fork and vfork, clone, socket. The next two are the same on all.
SYSTEM_CALLS = {"x86_64": (0xC000003E, (57, 58), 56, 41), "aarch64": (0xC00000B7, (), 220, 198)}
CLONE3, IO_URING_SETUP = 435, 425
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


def refuse_calls(*, processes: bool, sockets: bool) -> bool:
    """A filter of system calls (seccomp), for root too: no new processes but threads, no sockets but pairs.

    False where it is not to be had: another architecture, or a kernel without it.
    """
    machine = os.uname().machine
    if machine not in SYSTEM_CALLS:
        return False
    architecture, forks, clone, new_socket = SYSTEM_CALLS[machine]
    load, equal, at_least, any_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06
    allow_it, refuse, unknown = 0x7FFF0000, 0x00050000 | EPERM, 0x00050000 | ENOSYS
    program = [(load, 0, 0, 4), (equal, 1, 0, architecture), (give, 0, 0, refuse), (load, 0, 0, 0)]
    program += [(at_least, 0, 1, X32), (give, 0, 0, refuse)]
    # What io_uring does no filter sees.
    for number in (*((new_socket, IO_URING_SETUP) if sockets else ()), *(forks if processes else ())):
        program += [(equal, 0, 1, number), (give, 0, 0, refuse)]
    if processes:
        # glibc tries clone, whose flags a filter can read, where there is no clone3, whose flags it cannot.
        program += [(equal, 0, 1, CLONE3), (give, 0, 0, unknown), (equal, 1, 0, clone), (give, 0, 0, allow_it)]
        program += [(load, 0, 0, 16), (any_bit, 1, 0, CLONE_THREAD), (give, 0, 0, refuse)]
    program += [(give, 0, 0, allow_it)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in program))
    described_by = struct.pack("@HP", len(program), ctypes.addressof(filters))
    done: int = libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, described_by, 0, 0)
    return done == 0


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
