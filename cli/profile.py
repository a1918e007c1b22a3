"""`dragon profile`: measures this machine and its link."""

from __future__ import annotations

import sys
from dataclasses import asdict

from app.settings import Settings
from cli.defaults import is_set, share_cores, share_link


def profile() -> None:
    """Measure decode delay and link, as the services' first estimates."""
    share_cores()
    if not is_set("DRAGON_PEER_URL"):
        share_link()
    settings = Settings.read()
    import torch
    from rich.console import Console
    from rich.table import Table

    from app.peer_link.probe import measure
    from dragon.errors import LinkError
    from dragon.inference.profile import DecodeFit, Profile, decode_delays
    from dragon.link.control import Hello
    from dragon.retrieval import relevance
    from dragon.retrieval.answers import Answers
    from dragon.retrieval.embedder import Embedder
    from dragon.retrieval.judge import Judge

    torch.set_num_threads(settings.threads)
    tokenizer, model = settings.load()
    answers = Answers.of(settings.answers, quotes=model.quotes)
    rows = 1 if answers is Answers.WORDS else settings.top_k or answers.passages
    contexts, seconds = decode_delays(model, rows)
    found = Profile(model=model.name, rows=rows, decode=DecodeFit.of(contexts, seconds))
    embedder, judge = Embedder.load(settings.embedder), Judge.load(settings.reranker)
    scale = relevance.scale_of(embedder.fingerprint, judge.fingerprint)
    hello = Hello(tokenizer=tokenizer.fingerprint, relevance=scale, model=model.name)
    peer_key = settings.peer_key.get_secret_value() if settings.peer_key else None
    try:
        link = measure(settings.peers[0], peer_key, hello)
        found = found.model_copy(update=asdict(link))
    except LinkError as error:
        print(f"The link was not measured: {error.message}", file=sys.stderr)
    table = Table("what", "measured")
    for name, value in found.table(max(contexts)).items():
        table.add_row(name, value)
    Console().print(table)
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    print(f"Written to {found.write(settings.data_dir)}; restart the services to use it.")
