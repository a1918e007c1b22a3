"""Real prose as training data: passages, and questions made from a sentence's own words."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

from training.corpus import (
    GroundedQuestion,
    book_paragraphs,
    grounded_questions,
    split_sentences,
    wikitext_paragraphs,
)
from training.vocabulary import nouns_and_adjectives

_STOP = frozenset(
    "a an the of to in on at by for with from and or but nor as is are was were be been being it its "
    "he she they them his her their him i you we us my your our me this that these those there here "
    "which who whom whose what when where why how not no so if than then had has have do does did "
    "will would shall should may might can could must very too also just only into upon out up down "
    "over such all any some more most other one about after before said".split()
)
_AUX = "was|were|is|are|had|has|can|could|will|would|should|must|may|might"
_COPULA = re.compile(rf"^(?P<s>(?:[\w'-]+ ){{1,6}}?)(?P<v>{_AUX}) (?P<r>.+)$")
_PAST = re.compile(r"^(?P<s>(?:[\w'.-]+ ){1,6}?)(?P<v>[a-z]{3,}ed) (?P<r>.+)$")
_YEAR = re.compile(r"\b(?:in|since|by|until|from) (1[0-9]{3}|20[0-2][0-9])\b")
_COUNT = re.compile(r"\b(\d[\d,.]*|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty) ([a-z]+s)\b")
_PLACE = re.compile(r"\b(?:in|at|near|from|to) ((?:the )?[A-Z][a-z]+(?: [A-Z][a-z]+)?)\b")
_NAME = re.compile(r"^((?:[A-Z][a-z.]+ )+)(?=[a-z]+(?:ed|s)? )")
_ABOUT = (
    "What is said about {}?", "What does it say about {}?", "Tell me about {}.", "{}?", "{}",
    "What about {}?", "Where is {} mentioned?", "What do you know about {}?", "Find {}",
    "What happened with {}?", "Is there anything about {}?", "Which sentence mentions {}?",
    "What does the text say about {}?", "How is {} described?", "What is written about {}?",
)  # fmt: skip
_UNDOUBLED = frozenset("stopp plann beg grabb dropp slipp nodd robb begg travell controll admitt".split())


def base_form(past: str) -> str:
    """A guess at the base form of a regular past tense."""
    stem = past[:-2]
    if stem.endswith("i"):
        return stem[:-1] + "y"
    if stem in _UNDOUBLED:
        return stem[:-1]
    if re.search(r"(?:[aeiou][bcdgkptvz]|[aeiou]r|[sc]|[ai]s|u|[lng]g|[rl]v|[nr]c|[bdgtpfkz]l|us|as|at|it)$",
                 stem) and not re.search(r"(?:[aeo][aeiou][dktpr]|er|en|ow|ss|it|ch|sh)$", stem):  # fmt: skip
        return stem + "e"
    return stem


class ProseSource:
    """Passages of books and articles, with questions."""

    def __init__(self, data: Path, cache: Path, limit_bytes: int = 40_000_000) -> None:
        if not cache.exists():
            articles = list(wikitext_paragraphs(data))
            books = list(book_paragraphs(data, limit_bytes))
            words = nouns_and_adjectives(articles + books)
            kept = {"articles": articles, "books": books, **words}
            cache.write_text(json.dumps(kept), encoding="utf-8")
        found = json.loads(cache.read_text(encoding="utf-8"))
        self.articles: list[str] = found["articles"]
        self.books: list[str] = found["books"]
        self.words: dict[str, list[str]] = {name: found[name] for name in ("noun", "adjx")}
        self.grounded = grounded_questions(data)

    def paragraph(self, rng: random.Random) -> str:
        """One paragraph, from an article or a book."""
        return rng.choice(self.articles if rng.random() < 0.5 else self.books)

    def passage(self, rng: random.Random, size: int) -> str:
        """About ``size`` characters of running text."""
        if rng.random() < 0.5:
            return rng.choice(self.articles)[:size]
        start = rng.randrange(len(self.books) - 20)
        text = self.books[start]
        while len(text) < size:
            start += 1
            text += "\n\n" + self.books[start % len(self.books)]
        return text[:size]

    def sentence(self, rng: random.Random) -> str:
        """A sentence of moderate length."""
        while True:
            found = rng.choice(split_sentences(self.paragraph(rng)))
            if 25 < len(found) < 140:
                return found

    def questions(self, rng: random.Random) -> tuple[str, list[tuple[str, str]]]:
        """A short passage with up to four questions and the sentences that answer them."""
        if rng.random() < 0.12:
            return self._human(rng.choice(self.grounded), rng)
        while True:
            sentences = self._window(rng)
            pairs: list[tuple[str, str]] = []
            for sentence in rng.sample(sentences, min(4, len(sentences))):
                question = make_question(sentence, sentences, rng)
                if question:
                    pairs.append((question, sentence))
            if pairs:
                return " ".join(sentences), pairs

    def _window(self, rng: random.Random) -> list[str]:
        while True:
            if rng.random() < 0.25:
                sentences = [self.sentence(rng) for _ in range(rng.randint(2, 4))]
            else:
                found = split_sentences(self.paragraph(rng))
                start = rng.randrange(len(found))
                sentences = found[start : start + rng.randint(2, 6)]
            while len(sentences) > 1 and sum(map(len, sentences)) > 460:
                sentences.pop()
            if sum(map(len, sentences)) < 520:
                return sentences

    @staticmethod
    def _human(row: GroundedQuestion, rng: random.Random) -> tuple[str, list[tuple[str, str]]]:
        sentences = split_sentences(row.context)
        holders = [i for i, sentence in enumerate(sentences) if row.answer in sentence]
        at = holders[0] if holders else 0
        low, high = at, at + 1
        while high - low < 4 and (low > 0 or high < len(sentences)):
            if low > 0 and (high == len(sentences) or rng.random() < 0.5):
                low -= 1
            else:
                high += 1
            if sum(map(len, sentences[low:high])) > 460:
                break
        return " ".join(sentences[low:high]), [(row.question, sentences[at])]


def _words(text: str) -> list[str]:
    return re.findall(r"[\w'’-]+", text)


def _trim(text: str, rng: random.Random, low: int = 2, high: int = 9) -> str:
    """The first words of a clause, cut at a random length or at a comma."""
    clause = re.split(r"[,;:(—]|--", text.rstrip(".!?\"'”’"))[0].split()
    return " ".join(clause[: rng.randint(low, high)])


def _cloze_copula(sentence: str, rng: random.Random) -> str | None:
    match = _COPULA.match(sentence)
    if not match:
        return None
    subject, verb, rest = match["s"].strip(), match["v"], _trim(match["r"], rng)
    lowered = subject if subject[:1].isupper() and _is_name(subject) else _lower_first(subject)
    forms = (
        f"Who {verb} {rest}?" if _is_name(subject) else f"What {verb} {rest}?",
        f"What {verb} {lowered}?", f"What {verb} {lowered} {rest.split()[0]}?",
        f"When {verb} {lowered} {rest}?", f"Where {verb} {lowered} {rest}?",
        f"Why {verb} {lowered} {rest}?", f"How {verb} {lowered} {rest}?",
    )  # fmt: skip
    return rng.choice(forms)


def _cloze_past(sentence: str, rng: random.Random) -> str | None:
    match = _PAST.match(sentence)
    if not match:
        return None
    subject, verb, rest = match["s"].strip(), match["v"], _trim(match["r"], rng)
    lowered = subject if _is_name(subject) else _lower_first(subject)
    base = base_form(verb)
    forms = (
        f"Who {verb} {rest}?", f"What {verb} {rest}?", f"What did {lowered} {base}?",
        f"When did {lowered} {base} {rest}?", f"Where did {lowered} {base} {rest}?",
        f"Why did {lowered} {base} {rest}?", f"How did {lowered} {base} {rest}?",
        f"Whom did {lowered} {base}?", f"What happened when {lowered} {verb} {rest}?",
    )  # fmt: skip
    return rng.choice(forms)


def _is_name(subject: str) -> bool:
    words = subject.split()
    return words[0].lower() not in _STOP and words[-1][:1].isupper()


def _lower_first(text: str) -> str:
    first = text.split()[0]
    return text if first == "I" else text[:1].lower() + text[1:]


def _typed(sentence: str, rng: random.Random) -> str | None:
    """A question for a year, a count, a place or a leading name."""
    options: list[str] = []
    body = sentence.rstrip(".!?\"'”’")
    if match := _YEAR.search(body):
        rest = _content(body.replace(match.group(0), ""), rng)
        options += [f"In which year {rest}?", f"When {rest}?", f"What year {rest}?"]
    if match := _COUNT.search(body):
        options.append(f"How many {match.group(2)} {_content(body.replace(match.group(0), ''), rng)}?")
    if match := _PLACE.search(body):
        options.append(f"Where {_content(body.replace(match.group(0), ''), rng)}?")
    if match := _NAME.match(body):
        options += [f"Who {_trim(body[match.end():], rng, 3)}?"] * 2
    return rng.choice(options) if options else None


def _content(text: str, rng: random.Random) -> str:
    """Some of the content words, mostly in their order."""
    words = [word for word in _words(text) if word.lower() not in _STOP]
    if not words:
        return text
    count = min(len(words), rng.randint(2, 5))
    chosen = sorted(rng.sample(range(len(words)), count))
    if rng.random() < 0.2:
        rng.shuffle(chosen)
    kept = [words[index] for index in chosen]
    if rng.random() < 0.4:
        kept.insert(0, rng.choice(("was", "did", "is", "were", "does")))
        if rng.random() < 0.5:
            kept.insert(rng.randint(1, len(kept)), "the")
    return " ".join(kept)


def _about(sentence: str, rng: random.Random) -> str | None:
    words = sentence.split()
    if len(words) < 4:
        return None
    size = rng.randint(2, min(6, len(words)))
    start = rng.randrange(len(words) - size + 1)
    phrase = " ".join(words[start : start + size]).strip(".,;:!?\"'“”’() ")
    if rng.random() < 0.5:
        phrase = _content(sentence, rng)
    return rng.choice(_ABOUT).format(_lower_first(phrase) if phrase else phrase)


def make_question(sentence: str, passage: list[str], rng: random.Random) -> str | None:
    """A question that this sentence of the passage answers, or None if none can be made."""
    if not 20 < len(sentence) < 260:
        return None
    makers: tuple[Callable[[str, random.Random], str | None], ...] = (
        _cloze_copula, _cloze_past, _cloze_copula, _cloze_past, _typed, _typed, _about,
    )  # fmt: skip
    start = rng.randrange(len(makers))
    for offset in range(len(makers)):
        question = makers[(start + offset) % len(makers)](sentence, rng)
        if question and _singles_out(question, sentence, passage):
            return question[:1].upper() + question[1:] if rng.random() < 0.9 else question.lower()
    return None


def _singles_out(question: str, sentence: str, passage: list[str]) -> bool:
    """Whether the question shares more content words with its sentence than with any other."""
    asked = {word.lower() for word in _words(question)} - _STOP

    def overlap(text: str) -> int:
        return len(asked & {word.lower() for word in _words(text)})

    own = overlap(sentence)
    return own >= 1 and all(overlap(other) < own for other in passage if other != sentence)
