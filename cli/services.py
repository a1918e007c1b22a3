"""`dragon up`, `device` and `peer`: the services, together or alone."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pythonjsonlogger.json import JsonFormatter

from app.auth import api_key
from app.models.choice import kept, take_back
from app.settings import Settings
from cli.defaults import share_cores, share_link, sign_in_link
from cli.supervisor import (
    RESTART,
    Service,
    address,
    own_command,
    require_free,
    running,
    start_again,
    stoppable,
    wait_ready,
)
from dragon.errors import ConfigurationError, DragonError
from peer.corpus.versions import outdated
from peer.settings import PeerSettings

_LOG_FIELDS = {"asctime": "time", "levelname": "level", "name": "logger", "exc_info": "traceback"}
DEMO_CORPUS = Path(str(files("peer.corpus"))) / "demo_corpus.tsv"


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
            command = [
                *own_command("corpus", "build"),
                str(DEMO_CORPUS),
                "--out",
                str(peer.peer_corpus),
            ]
            if subprocess.run(command, check=False).returncode:
                raise DragonError("The demo corpus could not be built; see above.")
        with running(["peer"], ["device", "--restartable"]) as services:
            print("Loading the models.", flush=True)
            listening = (peer.peer_host, peer.peer_port), (device.host, device.port)
            wait_ready(services, *listening)
            url = f"http://{address(device.host, device.port)}"
            print(
                f"\nDRAGON is ready.\n\n  Open     {sign_in_link(device, key)}\n"
                f"  API      {url}/v1\n  API key  {key}\n\nCtrl-C ends it.\n",
                flush=True,
            )
            before = kept(device.data_dir)
            while True:
                if any(service.asks_to_restart for service in services):
                    print("Starting again, as requested on the page.", flush=True)
                    _start_with_the_choice(services, listening, before)
                    before = kept(device.data_dir)
                for service in services:
                    service.revive()
                time.sleep(0.2)


def _start_with_the_choice(
    services: Sequence[Service],
    listening: Iterable[tuple[str, int]],
    before: dict[Path, dict[str, str]],
) -> None:
    """Start all with the chosen model or, if one fails to start, with the previous model."""
    start_again(services)
    try:
        wait_ready(services, *listening)
    except DragonError as error:
        print(f"{error} Going back to the previous model.", flush=True)
        take_back(before)
        start_again(services)


Restartable = Annotated[bool, typer.Option("--restartable", hidden=True)]


def device(restartable: Restartable = False) -> None:
    """Start the device service."""
    settings = Settings.read()
    api_key(settings)
    require_free("DRAGON_PORT", settings.host, settings.port)
    from app.main import create_app
    from cli.server import server

    log_to_stderr(settings.log_format)
    restarting = False

    def restart() -> None:
        nonlocal restarting
        restarting = serving.should_exit = True

    app = create_app(settings, restart=restart if restartable else None)
    serving = server(app, settings.host, settings.port)
    serving.run()
    if restarting:
        sys.exit(RESTART)


def peer(*, ray: bool = False) -> None:
    """Start the cloud peer, in this process or as an application of Ray Serve."""
    settings = PeerSettings.read()
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
    peer_server(create_app(settings), settings).run()


class _JsonLines(JsonFormatter):
    def __init__(self) -> None:
        super().__init__(
            ["asctime", "levelname", "name", "message"],
            "%Y-%m-%dT%H:%M:%S%z",
            rename_fields=_LOG_FIELDS,
            json_ensure_ascii=False,
        )

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        return log_data | {"level": log_data["level"].lower()}


def log_to_stderr(style: Literal["text", "json"]) -> None:
    """Log our own packages from INFO on, others from WARNING on: as text, or JSON for programs."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S")
    handler.setFormatter(_JsonLines() if style == "json" else text)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    for name in ("dragon", "app", "peer"):
        logging.getLogger(name).setLevel(logging.INFO)
