"""`dragon watch` and `dragon unwatch`: folders whose files the running device follows."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from app.settings import Settings
from cli.device_client import DeviceClient
from dragon.errors import DragonError

_PAUSE_S = 0.5
_REASONS = 20  # the most unreadable files listed
_STATES = {
    "missing": "it is not there now, its documents stay",
    "failing": "the device cannot follow it now, its log says why",
}


def watch(
    folders: Annotated[list[Path] | None, typer.Argument(help="Folders; none: list them.")] = None,
    collection: Annotated[str | None, typer.Option(help="Default: the folder's name.")] = None,
    key: Annotated[
        str | None, typer.Option(help="The key they belong to, one with its own documents.")
    ] = None,
) -> None:
    """Turn the files of folders into documents that follow them, and wait until they are ready.

    Ctrl-C ends the waiting, not the watching.
    """
    device = DeviceClient(Settings.read())
    for path in folders or []:
        body = {"path": str(path.absolute()), "collection": collection, "key": key}
        folder = device.send("POST", "/api/folders", body)
        if key is None:
            _wait(device, folder)
        else:  # from here on only that key sees it
            print(f"{folder['path']}: followed for {key} (collection '{folder['collection']}')")
    if not folders:
        for folder in device.get("/api/folders")["data"]:
            _tell(device, folder)


def unwatch(folder: Annotated[Path, typer.Argument(help="The folder.")]) -> None:
    """Stop following a folder and delete its documents; its files stay."""
    device = DeviceClient(Settings.read())
    wanted = {str(folder.absolute()), str(folder.resolve())}
    for each in device.get("/api/folders")["data"]:
        if each["path"] in wanted:
            device.send("DELETE", f"/api/folders/{each['id']}")
            return
    raise DragonError(f"{folder} is not watched: `dragon watch` lists what is.")


def _wait(device: DeviceClient, folder: Any) -> None:
    shown = sys.stderr.isatty()
    while folder["state"] in ("starting", "watched") and (
        folder["files"]["waiting"] or folder["state"] == "starting"
    ):
        time.sleep(_PAUSE_S)
        folder = device.get(f"/api/folders/{folder['id']}")
        if shown:
            print(f"\r{_count(folder)}\x1b[K", end="", file=sys.stderr, flush=True)
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    _tell(device, folder)


def _tell(device: DeviceClient, folder: Any) -> None:
    """Print the folder's state, and why files could not be read."""
    told = f"{folder['path']}: {_STATES.get(folder['state'], _count(folder))}"
    print(f"{told} (collection '{folder['collection']}')", flush=True)
    unread = device.get(f"/api/folders/{folder['id']}/files?state=unread&limit={_REASONS}")
    for file in unread["data"]:
        print(f"  {file['path']}: {file['problem']}", file=sys.stderr)
    if unread["has_more"]:
        print(f"  and {folder['files']['unread'] - _REASONS} more", file=sys.stderr)


def _count(folder: Any) -> str:
    files = folder["files"]
    counts = {
        "can be found": files["indexed"] + files["words"],
        "wait": files["waiting"],
        "could not be read": files["unread"],
        "left out, deleted in DRAGON": files["left_out"],
    }
    said = [f"{count:,} {what}" for what, count in counts.items() if count]
    count = sum(files.values())
    named = "1 file" if count == 1 else f"{count:,} files"
    return named + (": " if said else "") + ", ".join(said)
