"""`dragon add`, `ask`, `watch`, `unwatch` and `mcp`: commands that talk to the running device.

They use its HTTP API and stream in both directions. `mcp` serves its `/mcp` over stdio, for
assistants that start a program.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from app.auth import api_key
from app.settings import Cloud, Settings
from cli.supervisor import address
from dragon.errors import ConfigurationError, DragonError
from dragon.sampling.params import Mode

if TYPE_CHECKING:
    import httpx2
    from mcp.client.session import ClientSession
    from mcp.server.context import ServerRequestContext

T = TypeVar("T")

_INTERRUPTED = 130
_PAUSE_S = 0.5
_REASONS = 20  # the most unreadable files listed
_STATES = {
    "missing": "it is not there now, its documents stay",
    "failing": "the device cannot follow it now, its log says why",
}


class DeviceClient:
    """An HTTP client of the configured device. Requests raise `DragonError` on failure."""

    def __init__(self, settings: Settings) -> None:
        self._address = address(settings.host, settings.port)
        # Only the device creates the key; asking before its first start must leave no file.
        known = settings.api_key is not None or (settings.data_dir / "api_key").exists()
        self._key = api_key(settings) if known else "none"

    def get(self, path: str) -> Any:
        return self.send("GET", path)

    def send(self, method: str, path: str, body: object = None) -> Any:
        """The JSON reply to a request with a JSON body."""
        with self._response(method, path, json=body) as response:
            return json.loads(response.read())

    def upload(self, path: Path) -> Any:
        """Upload a file, reading it as it is sent; returns the new file object."""
        with (
            path.open("rb") as file,
            self._response("POST", "/v1/files", files={"file": (path.name, file)}) as response,
        ):
            return json.loads(response.read())

    def events(self, method: str, path: str, body: object = None) -> Iterator[Any]:
        """The data of server-sent events, decoded, as they come."""
        with self._response(method, path, json=body) as response:
            rest = b""
            for piece in response.iter_bytes():
                # Not `iter_lines`, which also splits at characters that JSON strings may contain.
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.startswith(b"data: ") and line != b"data: [DONE]":
                        event = json.loads(line.removeprefix(b"data: "))
                        if "error" in event:
                            raise DragonError(event["error"]["message"])
                        yield event

    @contextmanager
    def _response(self, method: str, path: str, **content: Any) -> Iterator[httpx2.Response]:
        import httpx2

        headers = {"Authorization": f"Bearer {self._key}"}
        url = f"http://{self._address}{path}"
        try:
            with httpx2.stream(
                method, url, headers=headers, timeout=None, trust_env=False, **content
            ) as response:
                if response.is_error:
                    raise DragonError(_message(response))
                yield response
        except httpx2.ConnectError:
            message = f"No device runs at {self._address}: start it with `dragon up`."
            raise DragonError(message) from None
        except (OSError, httpx2.HTTPError) as error:
            raise DragonError(f"The device ended the connection: {error}") from error


def _message(response: httpx2.Response) -> str:
    try:
        return str(json.loads(response.read())["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"The device answered {response.status_code} {response.reason_phrase}."


def add(
    files: Annotated[list[Path], typer.Argument(help="Files, or folders with all their files.")],
) -> None:
    """Add files to the device's documents, and wait until they can be found."""
    device = DeviceClient(Settings.read())
    device.get("/health")  # without a device all files would fail alike
    refused = False
    for file in (each for path in files for each in _files_in(path)):
        try:
            passages = _added(device, file)
        except (DragonError, OSError) as error:
            reason = error.message if isinstance(error, DragonError) else error.strerror
            print(f"{file.name}: {reason}", file=sys.stderr)
            refused = True
        else:
            print(f"{file.name}: {passages} passage{'' if passages == 1 else 's'}", flush=True)
    if refused:
        raise typer.Exit(1)


def _files_in(path: Path) -> list[Path]:
    """The file itself, or all files in and below a folder, except hidden ones."""
    if not path.is_dir():
        return [path]
    inside = sorted(each for each in path.rglob("*") if each.is_file())
    return [each for each in inside if "/." not in f"/{each.relative_to(path).as_posix()}"]


def _added(device: DeviceClient, file: Path) -> int:
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
            _wait_for(device, folder)
        else:  # from here on only that key sees it
            print(f"{folder['path']}: followed for {key} (collection '{folder['collection']}')")
    if not folders:
        for folder in device.get("/api/folders")["data"]:
            _report(device, folder)


def unwatch(folder: Annotated[Path, typer.Argument(help="The folder.")]) -> None:
    """Stop following a folder and delete its documents; its files stay."""
    device = DeviceClient(Settings.read())
    wanted = {str(folder.absolute()), str(folder.resolve())}
    for each in device.get("/api/folders")["data"]:
        if each["path"] in wanted:
            device.send("DELETE", f"/api/folders/{each['id']}")
            return
    raise DragonError(f"{folder} is not watched: `dragon watch` lists what is.")


def _wait_for(device: DeviceClient, folder: Any) -> None:
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
    _report(device, folder)


def _report(device: DeviceClient, folder: Any) -> None:
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


# The Model Context Protocol over stdio.


def mcp() -> None:
    """Serve the device's documents over stdio to an assistant that speaks MCP."""
    try:
        import mcp as _sdk  # noqa: F401
    except ImportError:
        from app.api.mcp.endpoint import MISSING  # late: it imports torch

        raise ConfigurationError(MISSING) from None
    asyncio.run(_bridge(Settings.read()))


async def _bridge(settings: Settings) -> None:
    """Forward every request to the device, under the client's name."""
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    def forward(
        request: Callable[[ClientSession, Any], Awaitable[T]],
    ) -> Callable[..., Awaitable[T]]:
        async def handle(context: ServerRequestContext, params: Any) -> T:
            return await _ask(settings, context, lambda device: request(device, params))

        return handle

    server = Server[Any](
        "dragon",
        title="DRAGON",
        on_list_tools=forward(lambda device, params: device.list_tools(params=params)),
        on_call_tool=forward(lambda device, asked: device.call_tool(asked.name, asked.arguments)),
        on_list_resources=forward(lambda device, params: device.list_resources(params=params)),
        on_list_resource_templates=forward(
            lambda device, params: device.list_resource_templates(params=params)
        ),
        on_read_resource=forward(lambda device, params: device.read_resource(params.uri)),
    )
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def _ask(
    settings: Settings,
    context: ServerRequestContext,
    request: Callable[[ClientSession], Awaitable[T]],
) -> T:
    """Ask in a new session, since the device may have been restarted. Raises `MCPError`."""
    from httpx2 import AsyncClient
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.exceptions import MCPError
    from mcp_types import INTERNAL_ERROR

    url = f"http://{address(settings.host, settings.port)}/mcp"
    about = context.session.client_params
    try:
        # The protocol's own errors would not say that no device runs, or that the key is wrong.
        await asyncio.to_thread(DeviceClient(settings).get, "/v1/models")
        key = {"Authorization": f"Bearer {api_key(settings)}"}
        async with (
            AsyncClient(headers=key, timeout=None) as http,
            Client(
                streamable_http_client(url, http_client=http),
                client_info=None if about is None else about.client_info,
                mode="legacy",
            ) as client,
        ):
            return await request(client.session)
    except DragonError as error:
        raise MCPError(INTERNAL_ERROR, error.message) from None
    except ExceptionGroup as group:
        if (refused := group.subgroup(MCPError)) is not None:
            raise _first(refused) from None
        raise MCPError(INTERNAL_ERROR, "The device ended the connection.") from group


def _first(group: ExceptionGroup[Exception]) -> Exception:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error
