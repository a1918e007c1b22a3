"""The `dragon` program, also `python -m cli`: its commands, and how their errors end it."""

from __future__ import annotations

import sys

import typer

from cli import data, keys, models, running_device, services
from dragon.errors import DragonError

program = typer.Typer(
    help="Distributed retrieval-augmented generation.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for command in (
    services.up,
    running_device.add,
    running_device.ask,
    running_device.watch,
    running_device.unwatch,
    running_device.mcp,
    services.device,
    data.backup,
    data.restore,
    data.doctor,
    models.profile,
):
    program.command()(command)
program.add_typer(services.corpus_program, name="corpus")
program.add_typer(keys.program, name="key")
program.add_typer(models.program, name="models")
program.add_typer(services.peer_program, name="peer")
services.peer_program.add_typer(keys.peer_program, name="keys")
ledger_program = typer.Typer(help="What left the device.", no_args_is_help=True)
ledger_program.command("verify")(data.verify_ledger)
program.add_typer(ledger_program, name="ledger")


def main() -> None:
    """Run the program; an error that the user can fix ends it with one line."""
    try:
        program()
    except DragonError as error:
        sys.exit(f"dragon: {error.message}")


if __name__ == "__main__":
    main()
