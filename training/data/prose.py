"""Passages of real prose, with questions."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path

from training.data.corpus import (
    GroundedQuestion,
    book_paragraphs,
    grounded_questions,
    split_sentences,
    wikitext_paragraphs,
)
from training.data.rules import make_question
from training.data.synonyms import Synonyms
from training.data.vocabulary import nouns_and_adjectives

SALAD_QUESTIONS = (
    "{}?", "{}", "What is {}?", "Who is {}?", "Where is {}?", "When is {}?", "Tell me about {}.",
    "What about {}?", "How is {}?", "What does it say about {}?", "Which {}?", "Find {}.",
)  # fmt: skip
REACH = 6
"""Paragraphs around a text that its passages are taken from."""
PASSAGE_WORDS = 48
LONGEST = 420
"""Characters of a sentence that is quoted on its own."""


class ProseSource:
    """Passages of books and articles, with questions."""

    def __init__(
        self, data: Path, cache: Path, synonyms: Synonyms, limit_bytes: int = 40_000_000
    ) -> None:
        self.synonyms = synonyms
        self.vocabulary = ["nothing"]
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

    def use_vocabulary(self, tokens: Iterable[str]) -> None:
        """Take the words for random sentences from the tokenizer, so that all get copied."""
        words = (token.removeprefix("Ġ") for token in tokens)
        self.vocabulary = sorted(word for word in words if len(word) > 1 and word.isascii())

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

    def excerpts(self, rng: random.Random, count: int) -> tuple[list[str], str]:
        """`count` passages of about 64 tokens, and a running text from near them."""
        pool = self.articles if rng.random() < 0.6 else self.books
        at = rng.randrange(REACH, len(pool) - 2 * REACH)
        near = [*range(at - REACH, at), *range(at + REACH, at + 2 * REACH)]
        passages = []
        for place in rng.sample(near, count):
            words = pool[place].split()
            start = rng.randrange(max(1, len(words) - PASSAGE_WORDS))
            passages.append(" ".join(words[start : start + PASSAGE_WORDS]))
        text = "\n".join(pool[at : at + REACH])
        return passages, text[: rng.choice((600, 1200, 1800))]

    def single(self, rng: random.Random) -> tuple[str, str]:
        """A sentence of any length, and a question that it answers."""
        while True:
            if rng.random() < 0.1:
                _, [(asked, holder)] = self._human(rng.choice(self.grounded), rng)
                if len(holder) < LONGEST:
                    return holder, asked
            sentence = rng.choice(split_sentences(self.paragraph(rng)))
            if not 25 < len(sentence) < LONGEST:
                continue
            question = make_question(sentence, [sentence], rng) if rng.random() < 0.6 else None
            if question is None:
                words = [word.strip('.,;:!?"“”()') for word in sentence.split()]
                chosen = sorted(rng.sample(range(len(words)), min(len(words), rng.randint(1, 4))))
                few = " ".join(words[place] for place in chosen)
                question = rng.choice(SALAD_QUESTIONS).format(few)
            return sentence, self.synonyms.swap(question, rng, 0.4)

    def questions(self, rng: random.Random) -> tuple[str, list[tuple[str, str]]]:
        """A short passage with up to four questions and the sentences that answer them."""
        if rng.random() < 0.12:
            return self._human(rng.choice(self.grounded), rng)
        if rng.random() < 0.5:
            return self._salad(rng)
        while True:
            sentences = self._window(rng)
            pairs: list[tuple[str, str]] = []
            for sentence in rng.sample(sentences, min(4, len(sentences))):
                question = make_question(sentence, sentences, rng)
                if question:
                    pairs.append((self.synonyms.swap(question, rng, 0.4), sentence))
            if pairs:
                return " ".join(sentences), pairs

    def _salad(self, rng: random.Random) -> tuple[str, list[tuple[str, str]]]:
        """Random words as sentences: nothing helps but finding and copying, over all words."""
        lines: list[list[str]] = []
        for _ in range(rng.randint(1, 5)):
            pool = self.paragraph(rng).split() + self.paragraph(rng).split()
            words = [word.strip('.,;:!?"“”()') for word in rng.choices(pool, k=rng.randint(4, 10))]
            lines.append([word for word in words if word] or ["nothing"])
        texts = [" ".join(line)[:1].upper() + " ".join(line)[1:] + "." for line in lines]
        pairs: list[tuple[str, str]] = []
        for line, text in zip(lines, texts, strict=True):
            asked = rng.sample(line, min(len(line), rng.randint(1, 4)))
            shared = " ".join(other for other in texts if other != text).lower()
            if any(word.lower() not in shared for word in asked if len(word) > 2):
                question = rng.choice(SALAD_QUESTIONS).format(" ".join(asked))
                pairs.append((question, text))
        return " ".join(texts), pairs

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
