"""Processes of this project, forked from one that has imported what they need.

Importing takes seconds of processor time; tests and experiments start dozens of processes.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "app.main",
        "harness.throttle",
        "bench.lib.workload",
        "cli.main",
        "cli.server",
        "peer.main",
        "dragon.retrieval.embedder",
        "transformers.models.bert.modeling_bert",
        "transformers.models.qwen2.modeling_qwen2",
    ]
)


def start(
    module: str, arguments: Sequence[str], env: Mapping[str, str], log: Path
) -> ForkServerProcess:
    """Run `python -m module arguments` at the root of the project, in the environment `env`.

    Its output is appended to `log`. It ends with this process, unless this process is killed.
    """
    log.touch()
    process = _FORKS.Process(
        target=_run, args=(module, list(arguments), dict(env), log), daemon=True
    )
    process.start()
    return process


def _run(module: str, arguments: Sequence[str], env: Mapping[str, str], log: Path) -> None:
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(sink, stream.fileno())
    os.environ.clear()
    os.environ.update(env)
    os.chdir(ROOT)
    # Instead of a semaphore, which a process ended by a signal would leave behind.
    tqdm.set_lock(threading.RLock())
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
