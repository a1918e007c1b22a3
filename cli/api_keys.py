"""`dragon key`: the device's API key, and others by name, which may do less."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from app.api_keys import ApiKey, May, api_keys
from app.settings import Settings
from cli import data
from dragon.key_file import KeyFile

program = typer.Typer(
    help="Print the API key, or manage named keys; changes apply at once.",
    invoke_without_command=True,
)
Name = Annotated[str, typer.Argument(help="Whose key it is, such as a person or a program.")]


@program.callback()
def key(context: typer.Context) -> None:
    """Print the API key, and on stderr a link that signs one browser in."""
    if context.invoked_subcommand is None:
        data.key()


@program.command("add")
def add(
    name: Name,
    may: Annotated[
        May, typer.Option(help="Ask; ask and upload, list and read documents; or all.")
    ] = May.ASK,
) -> None:
    """Make a key and print it once; only its digest is kept."""
    print(_keys().add(name, may=may))
    print("It answers from the documents of all; it is not shown again.", file=sys.stderr)


@program.command("list")
def list_keys() -> None:
    """List the keys and what they may do."""
    for each in _keys().read():
        print(f"{each.name}  {each.may}")


@program.command("revoke")
def revoke(name: Name) -> None:
    """Revoke a key at once; answers under way are finished."""
    _keys().revoke(name)
    print(f"{name} is revoked.")


def _keys() -> KeyFile[ApiKey]:
    return api_keys(Settings.read().data_dir)
