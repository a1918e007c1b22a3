"""The `dragon` program: starts the services, builds the corpus, prints the key."""

from __future__ import annotations

import http.client
import json
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal
from urllib.parse import quote

import typer
import uvicorn
from dotenv import dotenv_values
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.auth import api_key
from app.settings import Settings
from dragon.errors import ConfigurationError, DragonError
from dragon.link.messages import MAX_CONTROL_BYTES
from peer.settings import PeerSettings

DEMO_CORPUS = Path(__file__).resolve().parent / "peer" / "demo_corpus.tsv"
_STOP_SECONDS = 6.0  # the services give open streams 3
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104

program = typer.Typer(
    help="Distributed retrieval-augmented generation.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
corpus_program = typer.Typer(help="The peer's public corpus.", no_args_is_help=True)
program.add_typer(corpus_program, name="corpus")


def main() -> None:
    """Run the program; what a person can put right ends it with one line."""
    try:
        program()
    except DragonError as error:
        sys.exit(f"dragon: {error.message}")


@program.command()
def up() -> None:
    """Start the peer and the device on this machine, with a demo corpus if there is none."""
    _share_cores()
    data_dir = Settings.read().data_dir
    _default("DRAGON_PEER_CORPUS", str(data_dir / "corpus"))
    given = Settings.read().peer_key
    _default("DRAGON_PEER_KEYS", given.get_secret_value() if given else secrets.token_urlsafe(32))
    peer = PeerSettings.read()
    _default("DRAGON_PEER_KEY", peer.peer_keys[0])
    _default("DRAGON_PEER_URL", f"ws://{_address(peer.peer_host, peer.peer_port)}/v1/link")
    device = Settings.read()
    key = api_key(device)
    _require_free("DRAGON_PEER_PORT", peer.peer_host, peer.peer_port)
    _require_free("DRAGON_PORT", device.host, device.port)
    with _stoppable():
        if not peer.peer_corpus.exists():
            print("Building the demo corpus; this happens once.", flush=True)
            command = [*_self("corpus", "build"), str(DEMO_CORPUS), "--out", str(peer.peer_corpus)]
            if subprocess.run(command, check=False).returncode:
                raise DragonError("The demo corpus could not be built; see above.")
        with _children("peer", "device") as running:
            print("Loading the models.", flush=True)
            _wait_ready(running, peer.peer_host, peer.peer_port)
            _wait_ready(running, device.host, device.port)
            address = f"http://{_address(device.host, device.port)}"
            print(
                f"\nDRAGON is ready.\n\n  Open     {_sign_in_link(device, key)}\n"
                f"  API      {address}/v1\n  API key  {key}\n\nCtrl-C ends it.\n",
                flush=True,
            )
            while True:
                _check(running)
                time.sleep(0.2)


@program.command()
def device() -> None:
    """Start the device service."""
    settings = Settings.read()
    api_key(settings)
    from app.main import create_app

    _log_to_stderr(settings.log_format)
    server(create_app(settings), settings.host, settings.port).run()


@program.command()
def peer() -> None:
    """Start the cloud peer."""
    settings = PeerSettings.read()
    from peer.main import create_app

    _log_to_stderr(settings.log_format)
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
    from app import backup

    contents = backup.backup(Settings.read().data_dir, path)
    print(f"{contents.documents} documents in {path}, {path.stat().st_size / 1e6:.1f} MB.")


@program.command()
def restore(
    path: Annotated[Path, typer.Argument(help="What `dragon backup` wrote.")],
    replace: Annotated[bool, typer.Option(help="Instead of the documents there are.")] = False,
) -> None:
    """Make the data directory of a backup; the device must not run."""
    from app import backup

    contents = backup.restore(path, Settings.read().data_dir, replace=replace)
    print(f"{contents.documents} documents of {contents.created} restored.")


@program.command()
def profile() -> None:
    """Measure decode delay and link; the services start with what was found."""
    _share_cores()
    settings = Settings.read()
    import torch
    from rich.console import Console
    from rich.table import Table

    from app.probe import measure
    from dragon.errors import LinkError
    from dragon.link.messages import Hello
    from dragon.model import LanguageModel
    from dragon.profile import DecodeFit, Profile
    from dragon.profiler import decode_delays
    from dragon.retrieval import relevance
    from dragon.retrieval.embedder import Embedder
    from dragon.tokenizer import Tokenizer

    torch.set_num_threads(settings.threads)
    tokenizer = Tokenizer.load(settings.model)
    model = LanguageModel.load(
        settings.model, tokenizer.vocab_size, dtype=settings.dtype, device=settings.torch_device
    )
    contexts, seconds = decode_delays(model, settings.top_k)
    found = Profile(model=model.name, rows=settings.top_k, decode=DecodeFit.of(contexts, seconds))
    scale = relevance.scale_of(Embedder.load(settings.embedder).fingerprint)
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

    from dragon.retrieval.embedder import Embedder
    from dragon.tokenizer import Tokenizer
    from peer.corpus import build

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
    from peer.corpus import Corpus

    corpus = Corpus.open(path or _corpus(Settings.read()))
    print(json.dumps(asdict(corpus.info()), indent=2))
    corpus.close()


def server(app: ASGIApp, host: str, port: int) -> uvicorn.Server:
    """Both services' server. Draft frames are small and must not wait, so nothing is deflated."""
    return uvicorn.Server(
        uvicorn.Config(
            _plain_start(app),
            host=host,
            port=port,
            lifespan="on",
            log_config=None,
            access_log=False,  # it would log the key in the sign-in link
            server_header=False,
            ws_max_size=MAX_CONTROL_BYTES,
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=3,
        )
    )


def _plain_start(app: ASGIApp) -> ASGIApp:
    """The app, saying in one line instead of a traceback what setting keeps it from starting."""

    async def started(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            return await app(scope, receive, send)
        failure: Message | None = None

        async def hold_failure(message: Message) -> None:
            nonlocal failure
            if message["type"] == "lifespan.startup.failed":
                failure = message
            else:
                await send(message)

        try:
            await app(scope, receive, hold_failure)
        except Exception as error:
            if failure is None:
                raise
            if isinstance(error, ConfigurationError):
                failure["message"] = error.message
            await send(failure)
        return None

    return started


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _log_to_stderr(style: Literal["text", "json"]) -> None:
    """Our own packages from INFO on, others from WARNING on."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S")
    handler.setFormatter(_JsonLines() if style == "json" else text)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    for name in ("dragon", "app", "peer"):
        logging.getLogger(name).setLevel(logging.INFO)


def _share_cores() -> None:
    """Two services that each take every core run a hundred times slower."""
    _default("DRAGON_THREADS", str(max(1, (os.cpu_count() or 1) // 2)))


def _default(name: str, value: str) -> None:
    """Set what neither the environment nor `.env` sets, for this process and its children."""
    if not {**dotenv_values(".env"), **os.environ}.get(name):
        os.environ[name] = value


def _corpus(settings: Settings) -> Path:
    _default("DRAGON_PEER_CORPUS", str(settings.data_dir / "corpus"))
    return PeerSettings.read().peer_corpus


def _address(host: str, port: int) -> str:
    host = _WILDCARDS.get(host, host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _sign_in_link(settings: Settings, key: str) -> str:
    return f"http://{_address(settings.host, settings.port)}/sign-in?key={quote(key)}"


def _require_free(setting: str, host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            reason = f"cannot listen on {_address(host, port)}: {error.strerror}"
            raise ConfigurationError(f"{setting}: {reason}; choose another") from error


def _self(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "cli", *arguments]


@contextmanager
def _stoppable() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a closed terminal end what is inside, which is no failure."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        yield
    except KeyboardInterrupt:
        print("\nEnded.", flush=True)


@contextmanager
def _children(*names: str) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """The services as processes of our process group, all ended at the end."""
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in names:
            running[name] = subprocess.Popen(_self(name))
        yield running
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not leave one behind
        for process in running.values():
            process.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for process in running.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _check(running: dict[str, subprocess.Popen[bytes]]) -> None:
    for name, process in running.items():
        if (status := process.poll()) is not None:
            others = " and ".join(f"the {other}" for other in running if other != name)
            raise DragonError(
                f"The {name} ended by itself (status {status}), see above; {others} is stopped too."
            )


def _wait_ready(running: dict[str, subprocess.Popen[bytes]], host: str, port: int) -> None:
    while not _is_ready(host, port):
        _check(running)
        time.sleep(0.1)


def _is_ready(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(_WILDCARDS.get(host, host), port, timeout=2)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    main()
