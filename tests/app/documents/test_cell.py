"""A parser that has been taken over tries to get out of its cell."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from app.documents.cell import layers

pytestmark = pytest.mark.skipif(
    layers() != ("files", "calls"), reason="this system has no cell to try to get out of"
)

ATTEMPTS = {
    "read a document": "open(SECRET).read()",
    "list the data directory": "os.listdir(FOLDER)",
    "see what there is": "os.listdir('/')",
    "read the service's keys": "open(f'/proc/{os.getppid()}/environ').read()",
    "read its memory": "open(f'/proc/{os.getppid()}/mem', 'rb').read(1)",
    "read a password file": "open('/etc/passwd').read()",
    "write beside the document": "open(FOLDER + '/planted', 'w')",
    "write into the code": "open(CODE, 'a')",
    "write into the temporary folder": "open('/tmp/planted', 'w')",
    "delete a document": "os.unlink(SECRET)",
    "link to a document": "os.link(SECRET, FOLDER + '/linked')",
    "connect by TCP": "socket.create_connection(('127.0.0.1', PORT))",
    "send by UDP": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'a', ('1.1.1.1', 53))",
    "use a socket of the system": "socket.socket(socket.AF_UNIX).connect('/run/docker.sock')",
    "talk to the kernel": "socket.socket(socket.AF_NETLINK)",
    "end the service": "os.kill(os.getppid(), 9)",
    "run a shell": "os.execv('/bin/sh', ['sh', '-c', 'true'])",
    "run Python": "os.execv(sys.executable, [sys.executable, '-c', ''])",
    "watch a process": "call(101 if machine == 'x86_64' else 117, 16, os.getppid(), 0, 0)",
    "ask the ring for a socket": "call(425, 8, ctypes.create_string_buffer(120))",
    "make a world of its own": "call(272 if machine == 'x86_64' else 97, 0x10000000)",
    "ask by the calls of another machine": "call(0x40000000 | 41, 2, 1, 0)",
}

SCRIPT = """
import ctypes, json, os, platform, socket, sys
SECRET, FOLDER, CODE, PORT = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
machine = platform.machine()
def call(*arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")
from app.documents.cell import confine
attempts = [compile(attempt, "attempt", "eval") for attempt in json.loads(sys.argv[5])]
{confine}
for attempt in attempts:
    try:
        eval(attempt)
    except PermissionError:
        print("refused")
    except OSError as error:
        print("failed", error)
    else:
        print("out")
"""


def attempted(tmp_path: Path, *attempts: str, confined: bool = True) -> list[str]:
    """What became of attempts in one process, each of them refused, or out."""
    secret = tmp_path / "original"
    secret.write_text("The code is 4471.")
    code = tmp_path / "code.py"
    code.touch()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        script = SCRIPT.replace("{confine}", "confine()" if confined else "")
        found = subprocess.run(
            [sys.executable, "-c", script, secret, tmp_path, code, str(port), json.dumps(attempts)],
            check=False,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[3],
        )
    assert secret.exists() or not confined
    return found.stdout.splitlines() or [found.stderr]


def test_it_stays_in(tmp_path: Path) -> None:
    became = attempted(tmp_path, *ATTEMPTS.values())
    assert dict(zip(ATTEMPTS, became, strict=False)) == dict.fromkeys(ATTEMPTS, "refused")


def test_the_attempts_are_real_ones(tmp_path: Path) -> None:
    names = ("read a document", "connect by TCP", "delete a document")
    assert attempted(tmp_path, *(ATTEMPTS[name] for name in names), confined=False) == ["out"] * 3


def test_what_a_reader_needs_is_there(tmp_path: Path) -> None:
    packages = "__import__('pypdfium2') and __import__('lxml.html')"
    assert attempted(tmp_path, f"{packages} and os.urandom(8)") == ["out"]
