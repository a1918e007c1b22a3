"""llama.cpp's server as users run it: `python -m harness.llama_server model.gguf --port 8080`."""

from __future__ import annotations

import argparse
import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from harness import services, warm
from harness.services import Service


@contextlib.contextmanager
def serving(path: Path, log: Path, *, key: str = "", slots: int = 4) -> Iterator[Service]:
    """A running server of a `.gguf` file, with one thread."""
    port = services.free_port()
    arguments = [str(path), "--port", str(port), "--slots", str(slots), "--key", key]
    process = warm.start("harness.llama_server", arguments, os.environ, log)
    service = Service(process, port, log)
    with services.ended(service):
        services.wait_until_up(service, "/health")
        yield service


def main() -> None:
    """Serve the given model until a signal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--key", default="")
    options = parser.parse_args()
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(options.model)
    params.port = options.port
    params.n_parallel = options.slots
    params.kv_unified = True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.verbosity = -1
    params.ui = False
    if options.key:
        params.api_keys = [options.key]
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
