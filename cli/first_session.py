"""`dragon add` and `dragon ask`: a first session with the running device."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from app.settings import Cloud, Settings
from cli.device_client import DeviceClient
from dragon.errors import DragonError
from dragon.sampling.params import Mode

_INTERRUPTED = 130


def add(
    files: Annotated[list[Path], typer.Argument(help="Files, or folders with all their files.")],
) -> None:
    """Add files to the device's documents, and wait until they can be found."""
    device = DeviceClient(Settings.read())
    device.get("/health")  # without a device all files would fail alike
    refused = False
    for file in (each for path in files for each in _files(path)):
        try:
            passages = _add(device, file)
        except (DragonError, OSError) as error:
            reason = error.message if isinstance(error, DragonError) else error.strerror
            print(f"{file.name}: {reason}", file=sys.stderr)
            refused = True
        else:
            print(f"{file.name}: {passages} passage{'' if passages == 1 else 's'}", flush=True)
    if refused:
        raise typer.Exit(1)


def _files(path: Path) -> list[Path]:
    """The file itself, or those in a folder and below it, except hidden ones."""
    if not path.is_dir():
        return [path]
    inside = sorted(each for each in path.rglob("*") if each.is_file())
    return [
        each
        for each in inside
        if not any(part.startswith(".") for part in each.relative_to(path).parts)
    ]


def _add(device: DeviceClient, file: Path) -> int:
    document = device.upload(file)
    for event in device.events("GET", f"/v1/files/{document['id']}/events"):
        if event["status"] == "error":
            raise DragonError(event["message"])
        if event["status"] == "processed":
            return int(event["total"])
    raise DragonError("It was removed before it could be found.")


def ask(
    question: Annotated[str, typer.Argument(help="What to ask.")],
    private: Annotated[bool, typer.Option("--private", help="Send nothing to the cloud.")] = False,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same text.")] = None,
    temperature: Annotated[float, typer.Option(help="0 always takes the likeliest token.")] = 0.0,
    cloud: Annotated[Cloud | None, typer.Option(help="Default: DRAGON_CLOUD.")] = None,
    mode: Annotated[Mode | None, typer.Option(help="Default: DRAGON_AGGREGATION.")] = None,
) -> None:
    """Ask a question; the answer goes to stdout as it is written, its sources to stderr."""
    chosen = {"cloud": cloud, "aggregation": mode}
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": question}],
        "temperature": temperature,
        "stream": True,
        "dragon": {"private": private, **{k: v.value for k, v in chosen.items() if v is not None}},
    }
    if seed is not None:
        body["seed"] = seed
    device = DeviceClient(Settings.read())
    sources: list[Any] = []
    try:
        body["model"] = device.get("/v1/models")["data"][0]["id"]
        for chunk in device.events("POST", "/v1/chat/completions", body):
            for choice in chunk["choices"]:
                print(choice["delta"].get("content") or "", end="", flush=True)
            for choice in (chunk.get("dragon") or {}).get("choices", []):
                sources = choice["sources"]
    except KeyboardInterrupt:
        print()
        raise typer.Exit(_INTERRUPTED) from None
    print()
    for side, title in dict.fromkeys((source["side"], source["title"]) for source in sources):
        print(f"{side}: {title}", file=sys.stderr)
