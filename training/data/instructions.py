"""Requests that no document answers: to be distinguished from questions, and declined."""

from __future__ import annotations

import random
import string

from training.data.prose import ProseSource

OPEN = (
    "Write a {adjective} poem about a {noun}.", "Write a short story about a {adjective} {noun}.",
    "Write an email to my boss about the {noun}.", "Draft a letter that complains about a {noun}.",
    "Give me five ideas for a {noun} party.", "Make a list of things to do with a {noun}.",
    "Suggest a name for a shop that sells {noun}s.", "Compose a tweet about the {noun}.",
    "Explain in simple words how a {noun} works.", "Describe a {adjective} {noun}.",
    "Come up with a slogan for a {adjective} {noun}.", "Write a function that sorts a {noun}.",
    "Invent a riddle whose answer is {noun}.", "Plan a day trip for a {adjective} family.",
    "What should I cook with a {noun}?", "How can I become more {adjective}?",
    "Tell me a joke about a {noun}.", "Pretend that you are a {noun} and greet me.",
    "Give three arguments for and against the {noun}.", "Find a rhyme for {noun}.",
    "Create a quiz about the {noun} with four questions.", "Invent a {adjective} film.",
    "What are the pros and cons of a {noun}?", "Design a {adjective} workout for beginners.",
)  # fmt: skip
WITH_TEXT = (
    "Summarize the following text.", "Rewrite this in a friendlier tone.",
    "Correct the grammar of the sentence.", "Translate this into {language}.",
    "Is the tone of this text positive or negative?", "Shorten this paragraph.",
    "Turn the text into bullet points.", "What is the main idea of the passage?",
    "List the names in the text below.", "Continue the story.", "Find a title for this text.",
    "Paraphrase the sentence without the word {noun}.", "Decide whether this is true or false.",
    "Extract the key words.", "Put the sentence into the past tense.", "Classify the text.",
)  # fmt: skip
ALPHABETS = (string.ascii_lowercase, string.printable, string.digits, "aeiou ", "?!.,; ",
             "äöüßéèñåøçłß ", "日本語かなカナ漢字 ", "абвгдежзиклмно ", "🙂🚀👍 ")  # fmt: skip
LANGUAGES = ("French", "Spanish", "German", "Italian", "Latin", "Dutch", "Polish")


def instruction(prose: ProseSource, rng: random.Random) -> str:
    """A request, in a third of cases with a text to work on."""
    template = rng.choice(WITH_TEXT if rng.random() < 0.35 else OPEN)
    text = template.format(
        noun=rng.choice(prose.words["noun"]),
        adjective=rng.choice(prose.words["adjx"]),
        language=rng.choice(LANGUAGES),
    )
    if template in WITH_TEXT:
        length = rng.randint(40, 400) if rng.random() < 0.6 else rng.randint(400, 1600)
        text += rng.choice(("\n\n", "\n", " ")) + prose.passage(rng, length)
    return text if rng.random() < 0.8 else text.rstrip(".?").lower()


def noise(rng: random.Random) -> str:
    """Signs that mean nothing, or one of their words again and again."""
    text = "".join(rng.choices(rng.choice(ALPHABETS), k=rng.randint(3, 160)))
    words = text.split() or ["x"]
    return " ".join([words[0][:12]] * rng.randint(3, 40) if rng.random() < 0.4 else words)
