"""`dragon corpus`: the peer's public passages, built and described."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from app.settings import Settings
from cli import defaults


def build(
    source: Annotated[Path, typer.Argument(help="JSONL or TSV with id, title and text.")],
    out: Annotated[Path | None, typer.Option(help="Default: DRAGON_PEER_CORPUS.")] = None,
) -> None:
    """Chunk, embed and index a file of passages; an older corpus there is replaced."""
    settings = Settings.read()
    from rich.progress import Progress

    from dragon.retrieval.embedder import Embedder
    from peer.corpus import builder

    embedder = Embedder.load(settings.embedder)
    with Progress() as progress:
        info = builder.build(source, out or defaults.corpus(settings), embedder, progress)
    print(f"{info.documents} documents, {info.passages} passages.")


def info(
    path: Annotated[Path | None, typer.Argument(help="Default: DRAGON_PEER_CORPUS.")] = None,
) -> None:
    """Print what a corpus holds, as JSON."""
    from peer.corpus.store import Corpus

    corpus = Corpus.open(path or defaults.corpus(Settings.read()))
    print(json.dumps(asdict(corpus.info()), indent=2))
    corpus.close()
