"""`dragon up`, `device` and `peer`: the services, together or alone, and the peer's `corpus`."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import threading
import time
from contextlib import suppress
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from dotenv import dotenv_values
from pythonjsonlogger.json import JsonFormatter

from app.auth import api_key, kept_key, one_time_code
from app.settings import Settings
from cli.supervisor import Gate, Services, address, own_command, require_free, stoppable
from dragon.errors import ConfigurationError, DragonError
from dragon.link.address import LINK_PATH
from peer.corpus.versions import FLAT_UP_TO, Versions, outdated
from peer.settings import PeerSettings

if TYPE_CHECKING:
    from peer.corpus.builder import Sharding

_LAST_ANSWERS_S = 600.0
_LOG_FIELDS = {"asctime": "time", "levelname": "level", "name": "logger", "exc_info": "traceback"}
DEMO_CORPUS = Path(str(files("peer.corpus"))) / "demo_corpus.tsv"


def share_cores() -> None:
    """Halve the threads: two services that each use every core run a hundred times slower."""
    _default("DRAGON_THREADS", str(max(1, (os.cpu_count() or 1) // 2)))


def share_link() -> PeerSettings:
    """The peer's settings on this machine; sets the device's key, address and corpus to match."""
    data_dir = Settings.read().data_dir
    _default("DRAGON_PEER_CORPUS", str(data_dir / "corpus"))
    given = Settings.read().peer_key
    key = given.get_secret_value() if given else kept_key(data_dir / "peer_key")
    _default("DRAGON_PEER_KEYS", key)
    peer = PeerSettings.read()
    _default("DRAGON_PEER_KEY", peer.peer_keys[0])
    _default("DRAGON_PEER_URL", f"ws://{address(peer.peer_host, peer.peer_port)}{LINK_PATH}")
    return peer


def sign_in_link(settings: Settings, key: str) -> str:
    code = one_time_code(key, time.time())
    return f"http://{address(settings.host, settings.port)}/sign-in?code={code}"


def is_set(name: str) -> bool:
    """Whether the environment or `.env` sets it."""
    return bool({**dotenv_values(".env"), **os.environ}.get(name))


def _default(name: str, value: str) -> None:
    """Set a variable that neither the environment nor `.env` sets, also for child processes."""
    if not is_set(name):
        os.environ[name] = value


def up() -> None:
    """Start the peer and the device on this machine; build a demo corpus if there is none."""
    share_cores()
    peer = share_link()
    if peer.peer_tls_cert is not None:
        raise ConfigurationError(
            "DRAGON_PEER_TLS_CERT: `dragon up` joins both services on this machine, where nothing "
            "is encrypted; start `dragon peer` and `dragon device` separately"
        )
    device = Settings.read()
    key = api_key(device)
    require_free("DRAGON_PEER_PORT", peer.peer_host, peer.peer_port)
    require_free("DRAGON_PORT", device.host, device.port)
    with stoppable():
        if not peer.peer_corpus.exists() or outdated(peer.peer_corpus, DEMO_CORPUS):
            print("Building the demo corpus; this happens once.", flush=True)
            place = str(peer.peer_corpus)
            command = own_command("corpus", "build", str(DEMO_CORPUS), "--out", place)
            if subprocess.run(command, check=False).returncode:
                raise DragonError("The demo corpus could not be built; see above.")
        services = Services(device.data_dir)
        with services.running():
            print("Loading the models.", flush=True)
            listening = (peer.peer_host, peer.peer_port), (device.host, device.port)
            services.wait_ready(*listening)
            url = f"http://{address(device.host, device.port)}"
            print(
                f"\nDRAGON is ready.\n\n  Open     {sign_in_link(device, key)}\n"
                f"  API      {url}/v1\n  API key  {key}\n\nCtrl-C ends it.\n",
                flush=True,
            )
            while True:
                services.look()
                services.rest(0.2)


GateOption = Annotated[int | None, typer.Option("--gate", hidden=True)]
"""A descriptor connected to `dragon up`, which has made sure that the port is free."""


def device(gate: GateOption = None) -> None:
    """Start the device service."""
    settings = Settings.read()
    api_key(settings)
    if gate is None:
        require_free("DRAGON_PORT", settings.host, settings.port)
    from app.main import create_app
    from cli.server import server

    log_to_stderr(settings.log_format)

    def leave() -> None:
        serving.should_exit = True

    async def drain() -> None:
        if succession is not None and succession.leaving:
            with suppress(TimeoutError):
                await asyncio.wait_for(app.state.dragon.admission.idle(), _LAST_ANSWERS_S)

    succession = None if gate is None else Gate(gate, leave)
    app = create_app(settings, succession=succession)
    serving = server(app, settings.host, settings.port, drain=drain)
    serving.run()


peer_program = typer.Typer(help="Start the cloud peer.", invoke_without_command=True)


@peer_program.callback()
def peer(
    context: typer.Context,
    ray: Annotated[
        bool, typer.Option("--ray", help="Run it on Ray Serve, in several processes.")
    ] = False,
    gate: GateOption = None,
) -> None:
    """Start the cloud peer."""
    if context.invoked_subcommand is not None:
        return
    settings = PeerSettings.read()
    if gate is None:
        require_free("DRAGON_PEER_PORT", settings.peer_host, settings.peer_port)
    if ray:
        try:
            from peer import on_ray
        except ModuleNotFoundError as error:
            raise ConfigurationError("--ray needs Ray: pip install 'dragon-rag[ray]'") from error
        on_ray.start()
        with stoppable():
            on_ray.listen(settings)
            on_ray.deploy()
            threading.Event().wait()
        with stoppable():  # a second signal ends it at once
            on_ray.stop()
        return
    from cli.server import peer_server
    from peer.main import create_app

    log_to_stderr(settings.log_format)
    turn = None if gate is None else Gate(gate).turn
    peer_server(create_app(settings, turn=turn), settings).run()


class _JsonLines(JsonFormatter):
    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        return log_data | {"level": log_data["level"].lower()}


def log_to_stderr(style: Literal["text", "json"]) -> None:
    """Log our own packages from INFO on, others from WARNING on: as text, or JSON for programs."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S")
    json_lines = _JsonLines(
        ["asctime", "levelname", "name", "message"],
        "%Y-%m-%dT%H:%M:%S%z",
        rename_fields=_LOG_FIELDS,
        json_ensure_ascii=False,
    )
    handler.setFormatter(json_lines if style == "json" else text)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    for name in ("dragon", "app", "peer"):
        logging.getLogger(name).setLevel(logging.INFO)


# The peer's corpus.


corpus_program = typer.Typer(help="The peer's public corpus.", no_args_is_help=True)

_Source = Annotated[Path, typer.Argument(help="JSONL, TSV or Parquet with id, title and text.")]
_Out = Annotated[Path | None, typer.Option(help="Default: DRAGON_PEER_CORPUS.")]
_Place = Annotated[Path | None, typer.Argument(help="Default: DRAGON_PEER_CORPUS.")]
_Processes = Annotated[
    int, typer.Option(min=1, help="How many embed; if several, on one core each.")
]


@corpus_program.command()
def build(
    source: _Source,
    out: _Out = None,
    processes: _Processes = 1,
    shards: Annotated[
        int, typer.Option(min=1, help="How many to distribute the documents over.")
    ] = 1,
    flat_up_to: Annotated[
        int, typer.Option(min=10_000, help="The most passages a shard keeps in memory.")
    ] = FLAT_UP_TO,
) -> None:
    """Chunk, embed and index a file of passages, and serve them; run again to resume."""
    from peer.corpus.builder import Sharding

    _build(source, out, processes, Sharding(shards, flat_up_to))


@corpus_program.command()
def append(source: _Source, out: _Out = None, processes: _Processes = 1) -> None:
    """Serve a file of passages in addition to the existing ones; run again to resume."""
    _build(source, out, processes, None)


def _build(source: Path, out: Path | None, processes: int, sharding: Sharding | None) -> None:
    settings = Settings.read()
    from rich.progress import Progress

    from dragon.retrieval.embedder import Embedder
    from peer.corpus import builder
    from peer.corpus.parts import embedded

    place, embedder = out or _corpus(), Embedder.load(settings.embedder)
    several = partial(embedded, count=processes, embedder=settings.embedder, source=source)
    embed = several if processes > 1 else None
    with Progress() as progress:
        made = builder.build(source, place, embedder, sharding, embed=embed, progress=progress)
    print(f"{made.documents} documents, {made.passages} passages.")


@corpus_program.command()
def info(path: _Place = None) -> None:
    """Print the contents of the served corpus, as JSON."""
    versions = Versions(path or _corpus())
    served = versions.current
    described = versions.manifest(served).model_dump()
    described["bytes"] = sum(file["bytes"] for file in described.pop("files").values())
    print(json.dumps({**described, "version": served, "versions": versions.names}, indent=2))


@corpus_program.command()
def verify(path: _Place = None) -> None:
    """Read every file of every version, and report whether each version is as it was built."""
    from peer.corpus.store import Corpus

    versions, damaged = Versions(path or _corpus()), False
    served = versions.current
    for name in versions.names:
        mark = " (served)" if name == served else ""
        try:
            corpus = Corpus.open(versions.root, version=name)
        except ConfigurationError as error:
            damaged = True
            print(f"{name}{mark}: {error.message}")
        else:
            print(f"{name}{mark}: {corpus.manifest.passages} passages, as they were built")
            corpus.close()
    if damaged:
        raise typer.Exit(1)


@corpus_program.command()
def switch(version: str, path: _Place = None) -> None:
    """Serve another version, after verifying it; a running peer follows."""
    from peer.corpus.store import Corpus

    versions = Versions(path or _corpus())
    Corpus.open(versions.root, version=version).close()
    versions.serve(version)


def _corpus() -> Path:
    """The corpus's directory: beside the device's data unless `DRAGON_PEER_CORPUS` is set."""
    _default("DRAGON_PEER_CORPUS", str(Settings.read().data_dir / "corpus"))
    return PeerSettings.read().peer_corpus
