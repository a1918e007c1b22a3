"""The program: what it prints, and that it leaves nothing running.

Covers `cli.__main__`, `cli.services`, `cli.supervisor` and `peer.main`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from harness import warm
from harness.services import ROOT, free_port

# Runs `dragon up` with services that answer /ready, and /again by asking for others in their place.
_STAND_IN = """
import os, socket, sys, threading, time
from cli.supervisor import GO, LOADED, SWITCH
from http.server import BaseHTTPRequestHandler, HTTPServer

class Ready(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        if self.path == "/again":
            gate.send(SWITCH)
            threading.Thread(target=leave).start()

def leave():
    if gate.recv(1) == GO:
        os._exit(0)

if sys.argv[1] == os.environ.get("BROKEN"):
    sys.exit(3)
gate = socket.socket(fileno=int(sys.argv[3]))
gate.send(LOADED)
if gate.recv(1) != GO:
    sys.exit(1)
names = ("DRAGON_PEER_KEY", "DRAGON_PEER_KEYS", "DRAGON_PEER_URL", "DRAGON_THREADS")
words = ["started", sys.argv[1], os.getpid(), *map(os.environ.get, names)]
os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # in one piece: two of us write
port = os.environ["DRAGON_PEER_PORT" if sys.argv[1] == "peer" else "DRAGON_PORT"]
HTTPServer(("127.0.0.1", int(port)), Ready).serve_forever()
"""
_UP = f"""
import sys
from cli import __main__ as program, supervisor
supervisor.own_command = lambda *arguments: [sys.executable, "-c", {_STAND_IN!r}, *arguments]
sys.argv = ["dragon", "up"]
program.main()
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "data" / "corpus").mkdir(parents=True)
    ours = {name: value for name, value in os.environ.items() if not name.startswith("DRAGON_")}
    return ours | {
        "PYTHONPATH": str(ROOT),
        "DRAGON_PORT": str(free_port()),
        "DRAGON_PEER_PORT": str(free_port()),
        "DRAGON_PEER_CORPUS": str(tmp_path / "data" / "corpus"),
    }


class Up:
    """A running `dragon up`; `children` are its services' process ids by name."""

    def __init__(self, environment: dict[str, str], directory: Path, before: str = "") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", before + _UP],
            env=environment,
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []

    def read_until(self, text: str) -> None:
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if text in line:
                return
        raise AssertionError("\n".join(self.lines))

    @property
    def children(self) -> dict[str, int]:
        started = [line.split() for line in self.lines if line.startswith("started")]
        return {words[1]: int(words[2]) for words in started}

    def end(self) -> str:
        try:
            output, _ = self.process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise
        self.lines += output.splitlines()
        return "\n".join(self.lines)

    def ended(self) -> str:
        """What it has printed; it has ended well, and so have its services."""
        output = self.end()
        assert self.process.returncode == 0
        assert all(map(gone, self.children.values()))
        return output


@pytest.fixture
def up(environment: dict[str, str], tmp_path: Path) -> Iterator[Up]:
    running = Up(environment, tmp_path)
    yield running
    if running.process.poll() is None:
        os.killpg(running.process.pid, signal.SIGKILL)
        running.process.wait()
    running.process.stdout.close()


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def test_up_prints_what_a_person_needs(up: Up, environment: dict[str, str], tmp_path: Path) -> None:
    up.read_until("Ctrl-C")
    output = "\n".join(up.lines)
    key = (tmp_path / "data" / "api_key").read_text().strip()
    assert f"http://127.0.0.1:{environment['DRAGON_PORT']}/sign-in?code=" in output
    assert output.count(key) == 1, "the link is not the key"
    assert f"API key  {key}" in output
    keys = {tuple(line.split()[3:]) for line in up.lines if line.startswith("started")}
    ((peer_key, peer_keys, url, threads),) = keys
    assert peer_key == peer_keys == (tmp_path / "data" / "peer_key").read_text().strip()
    assert len(peer_key) > 30
    assert url == f"ws://127.0.0.1:{environment['DRAGON_PEER_PORT']}/v1/link"
    assert int(threads) == max(1, (os.cpu_count() or 1) // 2)


@pytest.mark.parametrize(
    ("send", "number"),
    [(os.kill, signal.SIGINT), (os.kill, signal.SIGHUP), (os.killpg, signal.SIGINT)],
    ids=["interrupt", "hang-up", "Ctrl-C in the terminal, which reaches all at once"],
)
def test_a_signal_ends_everything(up: Up, send: Callable[..., None], number: int) -> None:
    up.read_until("Ctrl-C")
    send(up.process.pid, number)
    output = up.ended()
    assert "Ended." in output
    assert send is os.killpg or "Traceback" not in output  # stand-ins have theirs


_UNLUCKY = """
import os, signal
from cli.supervisor import Services

class Lock:
    def __init__(self, lock):
        self.lock = lock

    def acquire(self, *arguments):
        taken = self.lock.acquire(*arguments)
        os.kill(os.getpid(), signal.SIGINT)
        return taken

    def release(self):
        self.lock.release()

    def __enter__(self):
        self.acquire()

    def __exit__(self, *_):
        self.release()

look = Services.look

def looking(self):
    for service in self.serving:
        service.process._waitpid_lock = Lock(service.process._waitpid_lock)
    look(self)

Services.look = looking
"""


def test_a_signal_while_a_service_is_looked_at_ends_everything(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """An exception raised between taking and trying would keep the lock of `subprocess` held."""
    up = Up(environment, tmp_path, before=_UNLUCKY)
    assert "Ended." in up.ended()
    assert len(up.children) == 2


@pytest.mark.parametrize(("dead", "other"), [("peer", "device"), ("device", "peer")])
def test_one_that_dies_is_started_again_beside_the_other(up: Up, dead: str, other: str) -> None:
    up.read_until("Ctrl-C")
    before = up.children
    for again in ("0.5", "1"):
        os.kill(up.children[dead], signal.SIGKILL)
        up.read_until(f"The {dead} ended by itself (status -9); it is started again in {again} s.")
        up.read_until(f"started {dead}")
    assert up.children[dead] != before[dead]
    assert up.children[other] == before[other]
    up.process.terminate()
    up.ended()


def test_others_take_the_place_of_both(up: Up, environment: dict[str, str]) -> None:
    up.read_until("Ctrl-C")
    before = up.children
    httpx.get(f"http://127.0.0.1:{environment['DRAGON_PORT']}/again", timeout=60)
    up.read_until("Loading the model chosen on the page.")
    for _ in before:
        up.read_until("started")
    assert all(map(gone, before.values()))
    assert not set(up.children.values()) & set(before.values())
    up.process.terminate()
    assert "ended by itself" not in up.ended()


def test_a_service_that_does_not_start(environment: dict[str, str], tmp_path: Path) -> None:
    up = Up(environment | {"BROKEN": "device"}, tmp_path)
    assert "The device ended by itself (status 3)" in up.end()
    assert up.process.returncode == 1


def test_a_port_in_use(environment: dict[str, str], tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(environment["DRAGON_PORT"])))
        taken.listen()
        up = Up(environment, tmp_path)
        assert "dragon: DRAGON_PORT: cannot listen on" in up.end()
        assert up.process.returncode == 1


def test_what_is_set_is_kept(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DRAGON_PEER_KEYS=one,two\nDRAGON_THREADS=7\n")
    up = Up(environment, tmp_path)
    up.read_until("Ctrl-C")
    up.process.terminate()
    assert " one None ws://" in up.end()


def run(environment: dict[str, str], directory: Path, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "cli", *arguments],
        env=environment, cwd=directory, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", ["up", "peer"])
def test_a_wrong_setting_is_one_line(
    environment: dict[str, str], tmp_path: Path, command: str
) -> None:
    broken = environment | {"DRAGON_DTYPE": "float8"}
    status, output, message = run(broken, tmp_path, command)
    assert status != 0
    assert output == ""
    assert message.startswith("dragon: DRAGON_DTYPE: ")
    assert message.count("\n") == 1


def test_a_model_that_is_not_there_is_named_without_a_traceback(
    environment: dict[str, str], tmp_path: Path
) -> None:
    broken = environment | {"DRAGON_MODEL": str(tmp_path / "nowhere"), "HF_HUB_OFFLINE": "1"}
    status, _, message = run(broken, tmp_path, "device")
    assert status != 0
    assert str(tmp_path / "nowhere") in message
    assert "Traceback" not in message


def test_a_corpus_is_built_appended_to_checked_and_switched(
    environment: dict[str, str], tmp_path: Path
) -> None:
    made = tmp_path / "c"

    def corpus(*arguments: str | Path) -> tuple[int | None, str]:
        (log := tmp_path / "log").unlink(missing_ok=True)
        process = warm.start("cli", ["corpus", *map(str, arguments)], environment, log)
        process.join()
        return process.exitcode, log.read_text()

    for number, text in enumerate(["The capital of France is Paris.", "Velcro has hooks."]):
        (tmp_path / f"{number}.tsv").write_text(f"{number}\tA fact\t{text}\n")
    status, said = corpus("build", tmp_path / "0.tsv", "--out", made, "--shards", "2")
    assert (status, "1 documents, 1 passages." in said) == (0, True)
    status, said = corpus("append", tmp_path / "1.tsv", "--out", made)
    assert (status, "2 documents, 2 passages." in said) == (0, True)
    status, said = corpus("info", made)
    told = json.loads(said)
    assert (status, told["passages"], told["shards"]) == (0, 2, 2)
    assert (told["version"], told["versions"]) == ("v2", ["v1", "v2"])
    assert corpus("switch", "v1", made)[0] == 0
    damaged = made / "v2" / "shard-0" / "passages.db"
    damaged.write_bytes(b"")
    status, said = corpus("verify", made)
    assert status == 1
    assert "v1 (served): 1 passages, as they were built\n" in said
    assert f"v2: The corpus at {made} is damaged: {damaged} is not as it was" in said
    status, said = corpus("info", tmp_path / "nowhere")
    assert status != 0
    assert said.startswith(f"dragon: There is no corpus at {tmp_path}/nowhere.")
