"""`dragon peer` and `dragon peer keys`: the peer, and who may connect to it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from app.settings import Settings
from cli import services
from dragon.key_file import KeyFile
from peer.keys import DeviceKey, key_file
from peer.usage import USAGE, KeyUsage

program = typer.Typer(help="Start the cloud peer.", invoke_without_command=True)
keys_program = typer.Typer(
    help="Manage the devices' keys; changes apply at once.", no_args_is_help=True
)
program.add_typer(keys_program, name="keys")

Name = Annotated[str, typer.Argument(help="Whose key it is, such as a household or a device.")]


@program.callback()
def peer(
    context: typer.Context,
    ray: Annotated[
        bool, typer.Option("--ray", help="Run it on Ray Serve, in several processes.")
    ] = False,
) -> None:
    """Start the cloud peer."""
    if context.invoked_subcommand is None:
        services.peer(ray=ray)


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
