"""`dragon corpus`: build, check and switch the peer's public passages."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from app.settings import Settings
from cli import defaults
from dragon.errors import ConfigurationError
from peer.corpus.versions import FLAT_UP_TO, Manifest, Versions

program = typer.Typer(help="The peer's public corpus.", no_args_is_help=True)

_Source = Annotated[Path, typer.Argument(help="JSONL, TSV or Parquet with id, title and text.")]
_Out = Annotated[Path | None, typer.Option(help="Default: DRAGON_PEER_CORPUS.")]
_Place = Annotated[Path | None, typer.Argument(help="Default: DRAGON_PEER_CORPUS.")]
_Processes = Annotated[
    int, typer.Option(min=1, help="How many embed; if several, on one core each.")
]


@program.command()
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
    from peer.corpus import builder

    sharding = builder.Sharding(shards, flat_up_to)
    _made(source, out, processes, partial(builder.build, sharding=sharding))


@program.command()
def append(source: _Source, out: _Out = None, processes: _Processes = 1) -> None:
    """Serve a file of passages in addition to the existing ones; run again to resume."""
    from peer.corpus import builder

    _made(source, out, processes, builder.append)


def _made(source: Path, out: Path | None, processes: int, making: Callable[..., Manifest]) -> None:
    settings = Settings.read()
    from rich.progress import Progress

    from dragon.retrieval.embedder import Embedder
    from peer.corpus.parts import Workers

    place, embedder = out or defaults.corpus(settings), Embedder.load(settings.embedder)
    with Progress() as progress, ExitStack() as stack:
        workers = None
        if processes > 1:
            workers = stack.enter_context(Workers(processes, settings.embedder, source))
        made = making(source, place, embedder, workers=workers, progress=progress)
    print(f"{made.documents} documents, {made.passages} passages.")


@program.command()
def info(path: _Place = None) -> None:
    """Print the contents of the served corpus, as JSON."""
    versions = _versions(path)
    served = versions.current
    described = asdict(versions.manifest(served))
    described["bytes"] = sum(file["bytes"] for file in described.pop("files").values())
    print(json.dumps({**described, "version": served, "versions": versions.names}, indent=2))


@program.command()
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


@program.command()
def switch(version: str, path: _Place = None) -> None:
    """Serve another version, after verifying it; a running peer follows."""
    from peer.corpus.store import Corpus

    versions = _versions(path)
    Corpus.open(versions.root, version=version).close()
    versions.serve(version)


def _versions(path: Path | None) -> Versions:
    return Versions(path or defaults.corpus(Settings.read()))
