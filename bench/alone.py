"""One side in this process, without services or a link: what a model makes of given rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.reference import Passage
from dragon import aggregation
from dragon.decoder import Decoder, step
from dragon.model import LanguageModel
from dragon.protocol import Work
from dragon.retrieval.chunking import embedded_text, sentences
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.lexical import coverage
from dragon.retrieval.relevance import MINIMUM_SCORE, score
from dragon.retrieval.rows import document_rows
from dragon.sampling import Sampling
from dragon.tokenizer import Message, Tokenizer


@dataclass(frozen=True)
class Alone:
    """A model with its tokenizer."""

    model: LanguageModel
    tokenizer: Tokenizer

    @classmethod
    def load(cls, path: str | Path) -> Alone:
        """From a directory or a hub name."""
        tokenizer = Tokenizer.load(path)
        return cls(LanguageModel.load(path, tokenizer.vocab_size), tokenizer)

    def reply(self, question: str, passages: Sequence[Passage], limit: int = 96) -> str:
        """The greedy answer with one passage a row, at most `limit` tokens."""
        conversation = self.tokenizer.conversation([Message("user", question)])
        rows, _ = document_rows(self.tokenizer, passages, self.model.context, raw=False)
        decoder = Decoder(self.model, rows, conversation)
        decoder.acquire()
        decoder.prefill()
        text: list[int] = []
        greedy = Sampling(temperature=0)
        while len(text) < limit and not (text and text[-1] in self.tokenizer.end_ids):
            work = Work(max(0, len(text) - 1), tuple(text[-1:]), 1, 0)
            side = step(self.model, [decoder], [work])[0][0]
            text.append(aggregation.draft(side, greedy, len(text)))
        decoder.release()
        return self.tokenizer.decode(text)

    def found(self, question: str, text: str, embedder: TextEmbedder, count: int) -> list[Passage]:
        """The `count` sentences of a text nearest to a question, cut as retrieval does."""
        pieces = sentences([text], self.tokenizer)
        seen = [embedded_text(piece.text, piece.context) for piece in pieces]
        asked, *vectors = embedder.embed([question, *seen])
        scores = np.array(
            [
                score(float(vector @ asked), coverage(question, one))
                for vector, one in zip(vectors, seen, strict=True)
            ]
        )
        best = np.argsort(-scores, kind="stable")[:count]
        return [
            Passage(pieces[i].text, float(scores[i])) for i in best if scores[i] >= MINIMUM_SCORE
        ]
