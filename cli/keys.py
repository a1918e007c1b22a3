"""`dragon key`: the device's API key and named ones; `peer keys`: those of a peer's devices."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from app.api_keys import Documents, May, api_keys
from app.auth import api_key
from app.settings import Settings
from cli.services import sign_in_link
from dragon.errors import DragonError, InvalidRequestError
from dragon.keys import require_name
from peer.keys import USAGE, KeyUsage, key_file

program = typer.Typer(
    help="Print the API key, or manage named keys; changes apply at once.",
    invoke_without_command=True,
)
_FROM = {
    Documents.OWN: "its own documents and those that are shared",
    Documents.SHARED: "the device's own documents",
}
_PAUSE_S = 0.2
Name = Annotated[str, typer.Argument(help="Whose key it is, such as a person or a program.")]


@program.callback()
def key(context: typer.Context) -> None:
    """Print the API key, and on stderr a link that signs one browser in."""
    if context.invoked_subcommand is None:
        settings = Settings.read()
        print(api_key(settings))
        print(f"Sign in: {sign_in_link(settings, api_key(settings))}", file=sys.stderr)


@program.command("add")
def add(
    name: Name,
    scope: Annotated[
        May,
        typer.Option(
            "--scope", "--may", help="Ask; ask and upload, list and read documents; or all."
        ),
    ] = May.ASK,
    documents: Annotated[
        Documents, typer.Option(help="Its own and those that are shared, or the device's own.")
    ] = Documents.SHARED,
    again: Annotated[
        bool, typer.Option("--again", help="Take over what an earlier key of this name left.")
    ] = False,
) -> None:
    """Create a key and print it once; only its digest is kept."""
    from app.erasing import left_by, request_file  # late: `dragon up` needs no database

    data_dir = Settings.read().data_dir
    if documents is Documents.OWN:
        if request_file(data_dir, name).exists():
            raise InvalidRequestError(
                f"the data of an earlier key {name} is still being erased: wait"
            )
        if not again and (left := left_by(name, data_dir)):
            raise InvalidRequestError(
                f"an earlier key {name} has left {left}: choose another name, or take them over "
                "with --again"
            )
    print(api_keys(data_dir).add(name, may=scope, documents=documents))
    print(f"It answers from {_FROM[documents]}; it is not shown again.", file=sys.stderr)


@program.command("list")
def list_keys() -> None:
    """List the keys, what they may do, and which documents they have."""
    for each in api_keys(Settings.read().data_dir).read():
        print(f"{each.name}  {each.may}  {each.documents}")


@program.command("revoke")
def revoke(name: Name) -> None:
    """Revoke a key; its work in progress ends within two seconds. Its own documents stay."""
    from app.erasing import left_by

    data_dir = Settings.read().data_dir
    api_keys(data_dir).revoke(name)
    print(f"{name} is revoked.")
    if left := left_by(name, data_dir):
        print(
            f"Nobody can read what it has left, {left}, until it is added again; "
            f"`dragon key erase {name}` erases it.",
            file=sys.stderr,
        )


@program.command("erase")
def erase(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Erase everything a revoked key has left: documents, chats, watched folders, projects."""
    from app.erasing import left_by, request_erasure, request_file

    require_name(name)
    settings = Settings.read()
    if any(key.name == name for key in api_keys(settings.data_dir).read()):
        raise InvalidRequestError(f"there is a key {name}: revoke it first")
    left = left_by(name, settings.data_dir) or "no documents or conversations"
    if not yes:
        typer.confirm(f"{name} has left {left}. Erase it for good?", abort=True, err=True)
    request_erasure(settings.data_dir, name)
    asked = request_file(settings.data_dir, name)
    asyncio.run(_erased(settings, asked.exists))
    print(f"Erased: {left} of {name}.")


async def _erased(settings: Settings, left: Callable[[], bool]) -> None:
    """Wait until what was asked for is erased, by the running device or one started for this."""
    from app.main import open_state
    from app.storage.data_dir import InUseError

    while left():
        try:
            async with open_state(settings):
                if left():
                    raise DragonError(
                        "It could not be erased now; every start of the device tries again."
                    )
        except InUseError:
            await asyncio.sleep(_PAUSE_S)


# The keys of the devices that connect to a peer.


peer_program = typer.Typer(
    help="Manage the devices' keys; changes apply at once.", no_args_is_help=True
)

_Device = Annotated[str, typer.Argument(help="Whose key it is, such as a household or a device.")]


@peer_program.command("add")
def add_device(
    name: _Device,
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
    named = key_file(Settings.read().data_dir)
    print(named.add(name, tokens_a_day=tokens_a_day, answers=answers, share=share))
    print("Set it as DRAGON_PEER_KEY on its devices; it is not shown again.", file=sys.stderr)


@peer_program.command("list")
def list_devices() -> None:
    """Print the keys' names, their limits, and the tokens they have used today."""
    from rich.console import Console
    from rich.table import Table

    data_dir = Settings.read().data_dir
    usage = KeyUsage(data_dir / USAGE)
    table = Table("name", "share", "answers at once", "tokens a day", "today")
    for key in key_file(data_dir).read():
        table.add_row(
            key.name,
            f"{key.share:g}",
            str(key.answers or "-"),
            str(key.tokens_a_day or "-"),
            str(usage.of(key.name)),
        )
    Console().print(table)


@peer_program.command("revoke")
def revoke_device(name: _Device) -> None:
    """Revoke a key; its devices are disconnected within a second."""
    key_file(Settings.read().data_dir).revoke(name)
    print(f"{name} is revoked.")
