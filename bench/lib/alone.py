"""One side in this process, without services or a link: a model answers from given passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragon.inference.backends.backend import Backend
from dragon.inference.choice import ModelChoice
from dragon.inference.decoder import Decoder, step
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.protocol.messages import Work
from dragon.retrieval.chunking import embedded_text, sentences
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.find import LineReader, ranked
from dragon.retrieval.judge import TextJudge
from dragon.retrieval.prompt_rows import document_rows
from dragon.retrieval.query_parsing import Query
from dragon.retrieval.relevance import Hit
from dragon.sampling import mixture
from dragon.sampling.params import Sampling
from harness.reference import Passage


@dataclass(frozen=True)
class Alone:
    """A model with its tokenizer."""

    model: Backend
    tokenizer: Tokenizer

    @classmethod
    def load(cls, path: str | Path) -> Alone:
        """From a directory, a hub name or a `.gguf` file."""
        tokenizer, model = ModelChoice(model=str(path)).load()
        return cls(model, tokenizer)

    def reply(self, question: str, passages: Sequence[Passage], limit: int = 96) -> str:
        """The greedy answer with a row per passage, of at most `limit` tokens."""
        conversation = self.tokenizer.conversation([Message("user", question)])
        rows, _ = document_rows(
            self.tokenizer, passages, self.model.context, raw=False, quotes=False
        )
        decoder = Decoder(self.model, rows, conversation, limit=limit)
        assert decoder.acquire()
        decoder.prefill()
        text: list[int] = []
        greedy = Sampling(temperature=0)
        while len(text) < limit and not (text and text[-1] in self.tokenizer.end_ids):
            work = Work(max(0, len(text) - 1), tuple(text[-1:]), 1, 0)
            side = step(self.model, [decoder], [work])[0][0]
            text.append(mixture.draft(side, greedy, len(text)))
        decoder.release()
        return self.tokenizer.decode(text)

    def found(
        self, question: str, text: str, embedder: TextEmbedder, judge: TextJudge, count: int
    ) -> list[Passage]:
        """At most `count` sentences of a text that answer a question, as retrieval finds them."""
        query = Query.of(question, embedder)
        pieces = sentences([text])
        vectors = embedder.embed([embedded_text(piece.text, piece.context) for piece in pieces])
        hits = [
            Hit(number, "", "", piece.text, 0.0, 0.0, context=piece.context, vector=vector)
            for number, (piece, vector) in enumerate(zip(pieces, vectors, strict=True))
        ]
        best = ranked(query.questions, query.vectors, hits)
        reader = LineReader(judge, embedder)
        found = reader.answering(query.questions, best, {hit.id: hits for hit in best})
        return [Passage(hit.text, hit.score) for hit in found[:count]]
