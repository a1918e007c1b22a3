"""`dragon peer`, `peer keys` and `corpus`: the peer, who may connect, and what it has read."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.settings import Settings
from cli import services
from dragon.errors import ConfigurationError
from dragon.keys import KeyFile
from peer.corpus.versions import FLAT_UP_TO, Versions
from peer.keys import USAGE, DeviceKey, KeyUsage, key_file

if TYPE_CHECKING:
    from peer.corpus.builder import Sharding

peer_program = typer.Typer(help="Start the cloud peer.", invoke_without_command=True)
keys_program = typer.Typer(
    help="Manage the devices' keys; changes apply at once.", no_args_is_help=True
)
peer_program.add_typer(keys_program, name="keys")

Name = Annotated[str, typer.Argument(help="Whose key it is, such as a household or a device.")]


@peer_program.callback()
def peer(
    context: typer.Context,
    ray: Annotated[
        bool, typer.Option("--ray", help="Run it on Ray Serve, in several processes.")
    ] = False,
    gate: services.GateOption = None,
) -> None:
    """Start the cloud peer."""
    if context.invoked_subcommand is None:
        services.peer(gate, ray=ray)


@keys_program.command("add")
def add(
    name: Name,
    tokens_a_day: Annotated[
        int | None, typer.Option(min=1, help="Of questions and answers; default: unlimited.")
    ] = None,
    answers: Annotated[
        int | None, typer.Option(min=1, help="At once; default: half of DRAGON_PEER_MAX_SESSIONS.")
    ] = None,
    share: Annotated[
        float, typer.Option(min=0.01, max=100, help="Weight of its engine time; others have 1.")
    ] = 1.0,
) -> None:
    """Create a key and print it once; only its digest is kept."""
    key = _keys().add(name, tokens_a_day=tokens_a_day, answers=answers, share=share)
    print(key)
    print("Set it as DRAGON_PEER_KEY on its devices; it is not shown again.", file=sys.stderr)


@keys_program.command("list")
def list_keys() -> None:
    """Print the keys' names, their limits, and the tokens they have used today."""
    from rich.console import Console
    from rich.table import Table

    usage = KeyUsage(_data_dir() / USAGE)
    table = Table("name", "share", "answers at once", "tokens a day", "today")
    for key in _keys().read():
        table.add_row(
            key.name,
            f"{key.share:g}",
            _or_any(key.answers),
            _or_any(key.tokens_a_day),
            str(usage.of(key.name)),
        )
    Console().print(table)


@keys_program.command("revoke")
def revoke(name: Name) -> None:
    """Revoke a key; its devices are disconnected within a second."""
    _keys().revoke(name)
    print(f"{name} is revoked.")


def _or_any(limit: int | None) -> str:
    return "-" if limit is None else str(limit)


def _data_dir() -> Path:
    return Settings.read().data_dir


def _keys() -> KeyFile[DeviceKey]:
    return key_file(_data_dir())


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
    from peer.corpus.parts import Workers

    place, embedder = out or services.corpus(settings), Embedder.load(settings.embedder)
    with Progress() as progress, ExitStack() as stack:
        workers = None
        if processes > 1:
            workers = stack.enter_context(Workers(processes, settings.embedder, source))
        made = builder.build(source, place, embedder, sharding, workers=workers, progress=progress)
    print(f"{made.documents} documents, {made.passages} passages.")


@corpus_program.command()
def info(path: _Place = None) -> None:
    """Print the contents of the served corpus, as JSON."""
    versions = _versions(path)
    served = versions.current
    described = asdict(versions.manifest(served))
    described["bytes"] = sum(file["bytes"] for file in described.pop("files").values())
    print(json.dumps({**described, "version": served, "versions": versions.names}, indent=2))


@corpus_program.command()
def verify(path: _Place = None) -> None:
    """Read every file of every version, and report whether each version is as it was built."""
    from peer.corpus.store import Corpus

    versions, damaged = _versions(path), False
    served = versions.current
    for name in versions.names:
        mark = " (served)" if name == served else ""
        try:
            corpus = Corpus.open(versions.root, version=name)
        except ConfigurationError as error:
            damaged = True
            print(f"{name}{mark}: {error.message}")
        else:
            print(f"{name}{mark}: {corpus.info().passages} passages, as they were built")
            corpus.close()
    if damaged:
        raise typer.Exit(1)


@corpus_program.command()
def switch(version: str, path: _Place = None) -> None:
    """Serve another version, after verifying it; a running peer follows."""
    from peer.corpus.store import Corpus

    versions = _versions(path)
    Corpus.open(versions.root, version=version).close()
    versions.serve(version)


def _versions(path: Path | None) -> Versions:
    return Versions(path or services.corpus(Settings.read()))
