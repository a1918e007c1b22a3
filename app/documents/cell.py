"""A sandbox, the cell, for a process that reads untrusted files.

It has no network, no files but the code, and no programs but one, which is confined with it. Two
layers of Linux make it, both without privileges: Landlock for files (and for TCP and signals, where
the kernel supports that), and a seccomp filter for sockets, other processes' memory and programs.
Files opened before stay open. Without either, as on other systems, only the resource limits that
the process has set for itself remain.
"""

from __future__ import annotations

import ctypes
import os
import platform
import site
import struct
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

_NO_NEW_PRIVS, _GET_SECCOMP, _SECCOMP, _FILTER = 38, 21, 22, 2  # of prctl(2)

# Landlock: system calls, with the same numbers on all machines, and rights by ABI version.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
_RIGHTS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 5: 0xFFFF}
_TCP, _SIGNALS_AND_SOCKETS = 0b11, 0b11

# By machine: its number in linux/audit.h; socket, connect, ptrace, process_vm_readv,
# process_vm_writev, kill, io_uring_setup, unshare, keyctl; execve, execveat.
_MACHINES: dict[str, tuple[int, tuple[int, ...], tuple[int, ...]]] = {
    "x86_64": (0xC000003E, (41, 42, 101, 310, 311, 62, 425, 272, 250), (59, 322)),
    "aarch64": (0xC00000B7, (198, 203, 117, 270, 271, 129, 425, 97, 219), (221, 281)),
}
_OTHER_ABI = 0x40000000  # the numbers of x32 begin here
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | 1  # EPERM


def layers() -> tuple[str, ...]:
    """The layers that this system has, of `files` and `calls`."""
    if sys.platform != "linux":
        return ()
    files = ("files",) if _offers("syscall", _CREATE_RULESET, None, 0, 1) else ()
    calls = platform.machine() in _MACHINES and _offers("prctl", _GET_SECCOMP, 0, 0, 0, 0)
    return (*files, "calls") if calls else files


def confine(program: Path | None = None, reads: Iterable[Path] = ()) -> None:
    """Confine this process for good with the layers there are. Call it before any thread runs.

    It may start `program`; both may read the files and folders of `reads`. Raises `OSError` if a
    layer that this system has cannot be applied.
    """
    has = layers()
    if not has:
        return
    _call("prctl", _NO_NEW_PRIVS, 1, 0, 0, 0)
    if "files" in has:
        _restrict_files(_runnable(program) if program else set(), set(reads))
    if "calls" in has:
        _restrict_calls(programs=program is not None)


def _offers(*call: Any) -> bool:
    try:
        _call(*call)
    except OSError:
        return False
    return True


def _code() -> set[Path]:
    """The paths of Python, its packages and the system files they read: no user's data."""
    package = Path(__file__).resolve().parents[1]
    paths = {package, package.with_name("dragon")}
    paths |= {Path(path) for path in (*sysconfig.get_paths().values(), *site.getsitepackages())}
    paths |= {Path(sys.base_prefix) / "lib", Path(os.__file__).parent}
    system = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/mime.types")
    return paths | {Path(path) for path in (*system, "/etc/ld.so.cache", "/dev/urandom")}


def _runnable(program: Path) -> set[Path]:
    """A program, and what the kernel starts it with: a script's interpreter, the dynamic linker."""
    with program.open("rb") as file:
        first = file.readline(256).decode("latin-1")
    script = {Path(first[2:].split()[0])} if first.startswith("#!") and first[2:].strip() else set()
    return {program, *script, *Path("/").glob("lib*/ld-*.so*")}


def _restrict_files(runnable: set[Path], reads: set[Path]) -> None:
    version = _call("syscall", _CREATE_RULESET, None, 0, 1)
    rights = _RIGHTS[max(known for known in _RIGHTS if known <= version)]
    attributes = struct.pack("Q", rights)
    if version >= 4:
        attributes += struct.pack("Q", _TCP)
    if version >= 6:
        attributes += struct.pack("Q", _SIGNALS_AND_SOCKETS)
    rules = _call("syscall", _CREATE_RULESET, attributes, len(attributes), 0)
    for path in _code() | runnable | reads:
        with suppress(FileNotFoundError):
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = _READ_FILE | (_READ_DIR if path.is_dir() else 0)
            allowed |= _EXECUTE if path in runnable else 0
            _call("syscall", _ADD_RULE, rules, 1, struct.pack("=Qi", allowed, opened), 0)
            os.close(opened)
    _call("syscall", _RESTRICT_SELF, rules, 0)
    os.close(rules)


def _restrict_calls(*, programs: bool) -> None:
    machine, refused, starts = _MACHINES[platform.machine()]
    refused = refused if programs else (*refused, *starts)
    count = len(refused)
    load, equal, above, done = 0x20, 0x15, 0x35, 0x06
    program = [
        (load, 0, 0, 4),  # the machine
        (equal, 1, 0, machine),
        (done, 0, 0, _KILL),
        (load, 0, 0, 0),  # the number of the call
        (above, count + 1, 0, _OTHER_ABI),
        *((equal, count - place, 0, number) for place, number in enumerate(refused)),
        (done, 0, 0, _ALLOW),
        (done, 0, 0, _REFUSE),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    whole = struct.pack("HP", len(program), ctypes.addressof(code))
    _call("prctl", _SECCOMP, _FILTER, whole, 0, 0)


def _call(name: str, *arguments: int | bytes | None) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    longs = [
        ctypes.c_long(value) if isinstance(value, int) else ctypes.c_char_p(value)
        for value in arguments
    ]
    found = int(getattr(libc, name)(*longs))
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return found
