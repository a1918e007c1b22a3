"""Opens the data generators with the right split."""

from __future__ import annotations

from pathlib import Path

from training.data.facts import FactSource, is_held_out_schema
from training.data.grammar import Schema, parse_schemas
from training.data.prose import ProseSource
from training.data.slots import SlotFiller, read_lists
from training.data.synonyms import Synonyms

SCHEMAS = Path(__file__).parent / "schemas"
_NOT_SCHEMAS = {"words", "lexicon", "synonyms", "antonyms", "chains"}


def read_schemas() -> list[Schema]:
    """All schemas, file by file."""
    files = sorted(path for path in SCHEMAS.glob("*.txt") if path.stem not in _NOT_SCHEMAS)
    return [schema for path in files for schema in parse_schemas(path)]


def open_facts(split: str, prose: ProseSource | None) -> FactSource:
    """Facts for ``train``, ``phrasing`` (held-out questions) or ``relation`` (held-out schemas)."""
    lists = read_lists(SCHEMAS / "words.txt")
    words = prose.words if prose else {"noun": lists["simple_noun"], "adjx": lists["adj"]}
    filler = SlotFiller(lists | words)
    schemas = read_schemas()
    if split == "relation":
        schemas = [schema for schema in schemas if is_held_out_schema(schema)]
    else:
        schemas = [schema for schema in schemas if not is_held_out_schema(schema)]
    phrasing = {"train": "train", "phrasing": "held", "relation": "all"}[split]
    return FactSource(schemas, filler, prose.sentence if prose else None, phrasing)


def open_sources(data: Path, work: Path, split: str) -> tuple[FactSource, ProseSource]:
    """Facts and prose; ``work`` keeps the prepared prose."""
    prose = ProseSource(data, work / "prose.json", Synonyms(SCHEMAS / "synonyms.txt"))
    return open_facts(split, prose), prose
