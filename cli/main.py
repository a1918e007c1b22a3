"""The `dragon` program: starts the services, builds the corpus, prints the key."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer
from dotenv import dotenv_values

from app.auth import api_key, kept_key
from app.settings import Settings
from cli.serving import (
    address,
    check,
    children,
    log_to_stderr,
    own_command,
    require_free,
    server,
    stoppable,
    wait_ready,
)
from dragon.errors import DragonError
from peer.settings import PeerSettings

DEMO_CORPUS = Path(str(files("peer.corpus"))) / "demo_corpus.tsv"

program = typer.Typer(
    help="Distributed retrieval-augmented generation.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
corpus_program = typer.Typer(help="The peer's public corpus.", no_args_is_help=True)
program.add_typer(corpus_program, name="corpus")
ledger_program = typer.Typer(help="What left the device.", no_args_is_help=True)
program.add_typer(ledger_program, name="ledger")


def main() -> None:
    """Run the program; what a person can put right ends it with one line."""
    try:
        program()
    except DragonError as error:
        sys.exit(f"dragon: {error.message}")


@program.command()
def up() -> None:
    """Start the peer and the device on this machine, with a demo corpus if there is none."""
    from peer.corpus.store import outdated

    _share_cores()
    peer = _share_link()
    device = Settings.read()
    key = api_key(device)
    require_free("DRAGON_PEER_PORT", peer.peer_host, peer.peer_port)
    require_free("DRAGON_PORT", device.host, device.port)
    with stoppable():
        if not peer.peer_corpus.exists() or outdated(peer.peer_corpus, DEMO_CORPUS.name):
            print("Building the demo corpus; this happens once.", flush=True)
            command = [
                *own_command("corpus", "build"),
                str(DEMO_CORPUS),
                "--out",
                str(peer.peer_corpus),
            ]
            if subprocess.run(command, check=False).returncode:
                raise DragonError("The demo corpus could not be built; see above.")
        with children("peer", "device") as running:
            print("Loading the models.", flush=True)
            wait_ready(running, peer.peer_host, peer.peer_port)
            wait_ready(running, device.host, device.port)
            url = f"http://{address(device.host, device.port)}"
            print(
                f"\nDRAGON is ready.\n\n  Open     {_sign_in_link(device, key)}\n"
                f"  API      {url}/v1\n  API key  {key}\n\nCtrl-C ends it.\n",
                flush=True,
            )
            while True:
                check(running)
                time.sleep(0.2)


@program.command()
def device() -> None:
    """Start the device service."""
    settings = Settings.read()
    api_key(settings)
    require_free("DRAGON_PORT", settings.host, settings.port)
    from app.main import create_app

    log_to_stderr(settings.log_format)
    server(create_app(settings), settings.host, settings.port).run()


@program.command()
def peer() -> None:
    """Start the cloud peer."""
    settings = PeerSettings.read()
    require_free("DRAGON_PEER_PORT", settings.peer_host, settings.peer_port)
    from peer.main import create_app

    log_to_stderr(settings.log_format)
    server(create_app(settings), settings.peer_host, settings.peer_port).run()


@program.command()
def key() -> None:
    """Print the API key, and on stderr the sign-in link."""
    settings = Settings.read()
    print(api_key(settings))
    print(f"Sign in: {_sign_in_link(settings, api_key(settings))}", file=sys.stderr)


@program.command()
def backup(path: Annotated[Path, typer.Argument(help="The file to write.")]) -> None:
    """Write all documents to one file, while the device serves or not."""
    from app.documents import backup

    contents = backup.backup(Settings.read().data_dir, path)
    size = path.stat().st_size / 1e6
    print(f"{_documents(contents.documents)} in {path}, {size:.1f} MB.")


@program.command()
def restore(
    path: Annotated[Path, typer.Argument(help="What `dragon backup` wrote.")],
    replace: Annotated[bool, typer.Option(help="Instead of the documents there are.")] = False,
) -> None:
    """Make the data directory of a backup; the device must not run."""
    from app.documents import backup

    contents = backup.restore(path, Settings.read().data_dir, replace=replace)
    print(f"{_documents(contents.documents)} of {contents.created} restored.")


@program.command()
def profile() -> None:
    """Measure decode delay and link; the services start with what was found."""
    _share_cores()
    if not _is_set("DRAGON_PEER_URL"):
        _share_link()
    settings = Settings.read()
    import torch
    from rich.console import Console
    from rich.table import Table

    from app.peer_link.probe import measure
    from dragon.errors import LinkError
    from dragon.inference.backends.torch.model import LanguageModel
    from dragon.inference.profile import DecodeFit, Profile
    from dragon.inference.profiler import decode_delays
    from dragon.inference.tokenizer import Tokenizer
    from dragon.link.control import Hello
    from dragon.retrieval import relevance
    from dragon.retrieval.embedder import Embedder
    from dragon.retrieval.reranker import Reranker

    torch.set_num_threads(settings.threads)
    tokenizer = Tokenizer.load(settings.model)
    model = LanguageModel.load(
        settings.model, tokenizer.vocab_size, dtype=settings.dtype, device=settings.torch_device
    )
    contexts, seconds = decode_delays(model, settings.top_k)
    found = Profile(model=model.name, rows=settings.top_k, decode=DecodeFit.of(contexts, seconds))
    embedder, reranker = Embedder.load(settings.embedder), Reranker.load(settings.reranker)
    scale = relevance.scale_of(embedder.fingerprint, reranker.fingerprint)
    hello = Hello(tokenizer=tokenizer.fingerprint, relevance=scale, model=model.name)
    peer_key = settings.peer_key.get_secret_value() if settings.peer_key else None
    try:
        link = measure(settings.peer_url, peer_key, hello)
        found = found.model_copy(update=asdict(link))
    except LinkError as error:
        print(f"The link is left out: {error.message}", file=sys.stderr)
    table = Table("what", "measured")
    for name, value in found.table(max(contexts)).items():
        table.add_row(name, value)
    Console().print(table)
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    print(f"Written to {found.write(settings.data_dir)}; restart the services to use it.")


@corpus_program.command("build")
def build_corpus(
    source: Annotated[Path, typer.Argument(help="JSONL or TSV with id, title and text.")],
    out: Annotated[Path | None, typer.Option(help="Default: DRAGON_PEER_CORPUS.")] = None,
) -> None:
    """Chunk, embed and index a file of passages; an older corpus there is replaced."""
    settings = Settings.read()
    from rich.progress import Progress

    from dragon.inference.tokenizer import Tokenizer
    from dragon.retrieval.embedder import Embedder
    from peer.corpus.builder import build

    tokenizer = Tokenizer.load(settings.model)
    embedder = Embedder.load(settings.embedder)
    with Progress() as progress:
        info = build(source, out or _corpus(settings), embedder, tokenizer, progress)
    print(f"{info.documents} documents, {info.passages} passages.")


@corpus_program.command("info")
def show_corpus(
    path: Annotated[Path | None, typer.Argument(help="Default: DRAGON_PEER_CORPUS.")] = None,
) -> None:
    """Print what a corpus holds, as JSON."""
    from peer.corpus.store import Corpus

    corpus = Corpus.open(path or _corpus(Settings.read()))
    print(json.dumps(asdict(corpus.info()), indent=2))
    corpus.close()


@ledger_program.command("verify")
def verify_ledger() -> None:
    """Check the chain of everything that left the device; the services may be running."""
    from app.ledger.verify import verify
    from app.storage.database import DATABASE, connect, database_url, session_maker

    data_dir = Settings.read().data_dir
    if not (data_dir / DATABASE).exists():
        raise DragonError(f"There is no ledger in {data_dir}: no device was started with it yet.")

    async def check() -> None:
        database = connect(database_url(data_dir))
        try:
            found = await verify(session_maker(database))
        finally:
            await database.dispose()
        print(f"{found.answers} answers, {found.entries} entries: the chain holds.")
        print(f"Its last hash is {found.head}")

    asyncio.run(check())


def _documents(count: int) -> str:
    return "1 document" if count == 1 else f"{count} documents"


def _share_cores() -> None:
    """Two services that each take every core run a hundred times slower."""
    _default("DRAGON_THREADS", str(max(1, (os.cpu_count() or 1) // 2)))


def _share_link() -> PeerSettings:
    """The peer of this machine, whose key, address and corpus the device's settings then fit."""
    data_dir = Settings.read().data_dir
    _default("DRAGON_PEER_CORPUS", str(data_dir / "corpus"))
    given = Settings.read().peer_key
    key = given.get_secret_value() if given else kept_key(data_dir / "peer_key")
    _default("DRAGON_PEER_KEYS", key)
    peer = PeerSettings.read()
    _default("DRAGON_PEER_KEY", peer.peer_keys[0])
    _default("DRAGON_PEER_URL", f"ws://{address(peer.peer_host, peer.peer_port)}/v1/link")
    return peer


def _default(name: str, value: str) -> None:
    """Set what neither the environment nor `.env` sets, for this process and its children."""
    if not _is_set(name):
        os.environ[name] = value


def _is_set(name: str) -> bool:
    return bool({**dotenv_values(".env"), **os.environ}.get(name))


def _corpus(settings: Settings) -> Path:
    _default("DRAGON_PEER_CORPUS", str(settings.data_dir / "corpus"))
    return PeerSettings.read().peer_corpus


def _sign_in_link(settings: Settings, key: str) -> str:
    return f"http://{address(settings.host, settings.port)}/sign-in?key={quote(key)}"
