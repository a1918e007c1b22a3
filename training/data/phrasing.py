"""How people wrap what they ask for: full questions, noun phrases and embedded questions."""

from __future__ import annotations

import random

from training.data.grammar import Schema, Value, capitalize, choose, fill, slots_of

NOUN_PHRASE = (
    "What is {}?", "What is {}?", "What is {}?", "What's {}?", "What was {}?", "Tell me {}.",
    "Tell me {} please.", "{}?", "{}", "Give me {}.", "I need {}.", "I forgot {}.",
    "Do you know {}?", "Do you remember {}?", "Could you tell me {}?", "Can you find {}?",
    "Please look up {}.", "Remind me of {}.", "What did I write about {}?", "I am looking for {}.",
    "What do my notes say about {}?", "What does it say about {}?", "Find {}.", "Look up {}",
    "Can you remind me of {}?", "What about {}?", "I can't remember {}.", "Show me {}.",
    "What would be {}?", "Any idea what {} is?", "Could you look up {} for me?", "And {}?",
    "I would like to know {}.", "Can you give me {}?", "Do you have {}?", "Where can I find {}?",
)  # fmt: skip
EMBEDDED = (
    "Tell me {}.", "Do you know {}?", "Do you remember {}?", "Can you tell me {}?", "I forgot {}.",
    "Could you tell me {}?", "I can't remember {}.", "Remind me {}.", "Please tell me {}.",
    "Any idea {}?", "I want to know {}.", "I need to know {}.", "Could you remind me {}?",
    "I would like to know {}.", "Do my notes say {}?", "Can you check {}?", "Look up {}.",
    "I wonder {}.", "Please find out {}.", "Does it say {}?", "Did I write down {}?",
)  # fmt: skip
PREFIX = (
    "{}", "{}", "{}", "{}", "{}", "{}", "{}", "{}", "{}", "{}", "{}", "{}", "{}", "Hey, {l}",
    "Quick question: {l}", "Please tell me: {l}", "According to my notes, {l}", "So {l}",
    "Sorry, {l}", "{} I forgot.", "{} Please tell me.", "I have a question. {}", "Hi! {}",
    "And {l}", "{} Thanks.", "Just to be sure, {l}", "Remind me, {l}", "Hello, {l}",
)  # fmt: skip


def _casing(text: str, rng: random.Random) -> str:
    roll = rng.random()
    if roll < 0.80:
        return text
    if roll < 0.88:
        return text[:1].lower() + text[1:].rstrip("?.")
    if roll < 0.94:
        return text.rstrip("?.")
    if roll < 0.97:
        return text.lower()
    return text.rstrip(".?") + rng.choice((" ?", "??", "?!", "...?", ""))


def templates_of(schema: Schema) -> list[tuple[str, str]]:
    """All question templates of a schema, with their kind."""
    return [
        *(("full", template) for template in schema.questions),
        *(("noun", template) for template in schema.noun_phrases),
        *(("embedded", template) for template in schema.embedded),
    ]


def wrap(kind: str, body: str, rng: random.Random) -> str:
    """Turn a filled template into what the person types."""
    if kind == "noun":
        text = capitalize(rng.choice(NOUN_PHRASE).format(body))
    elif kind == "embedded":
        text = capitalize(rng.choice(EMBEDDED).format(body))
    else:
        question = capitalize(body) + ("" if body[-1:] in ".?" else "?")
        lower = question[:1].lower() + question[1:]
        text = rng.choice(PREFIX).format(question, l=lower)
    return _casing(text, rng)


def ask(
    templates: list[tuple[str, str]], values: dict[str, Value], rng: random.Random
) -> tuple[str, set[str]]:
    """A question from one of the templates, and the names of the slots that it mentions."""
    noun = [entry for entry in templates if entry[0] == "noun"]
    full = [entry for entry in templates if entry[0] == "full"]
    pool = full if full and (not noun or rng.random() < 0.62) else templates
    kind, template = rng.choice(pool)
    chosen = choose(template, rng)
    return wrap(kind, fill(chosen, values, rng, asked=True), rng), slots_of(chosen)
