"""Turns text into tokens and back: plain text, conversations, prompts with a document."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
from transformers import AutoTokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

from dragon.errors import ConfigurationError, InvalidRequestError
from dragon.inference.backends.llama_cpp.gguf import gguf_tokenizer
from dragon.inference.chat_template import Chat, ChatTemplate, Rendering
from dragon.inference.chat_template import Message as Message
from dragon.inference.grammar import Grammars, Mask
from dragon.inference.rows import Begins
from dragon.inference.tools import CallFormat

_LONG = 1 << 14  # characters
_APART = "☺"  # never merged with a neighbour
_BYTES = {character: byte for byte, character in bytes_to_unicode().items()}


class Tokenizer:
    """A Hugging Face tokenizer with what the engine needs.

    A row of the engine is a constant prefix, a document, and the conversation after it: with a chat
    template the document begins the system message, or the first question, so that its tokens come
    first and its KV can be kept.
    """

    def __init__(self, backend: Any, size: int | None = None) -> None:
        """`size` is the model's number of tokens, if the tokenizer may have more."""
        self._backend = backend
        self._size = len(backend) if size is None else min(size, len(backend))
        # Its own copy: whether special tokens are parsed is state that threads would share.
        self._plain = tokenizers.Tokenizer.from_str(backend.backend_tokenizer.to_str())
        self._plain.encode_special_tokens = True
        self._plain.no_truncation()
        self._plain.no_padding()
        self._start: list[int] = backend("", add_special_tokens=True)["input_ids"]
        lead = () if backend.chat_template is not None else self._start
        self._template = ChatTemplate(backend, self.read, lead)

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Load from a directory or its `tokenizer.json`, a hub name or a `.gguf` file.

        Raises `ConfigurationError` on failure.
        """
        if str(path).endswith(".gguf"):
            return cls(*gguf_tokenizer(Path(path)))
        folder = Path(path).parent if Path(path).name == "tokenizer.json" else path
        try:
            backend = AutoTokenizer.from_pretrained(str(folder))
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"no tokenizer could be loaded from {path}: {error}"
            ) from error
        if not backend.is_fast:
            raise ConfigurationError(f"the tokenizer in {path} has no tokenizer.json")
        return cls(backend)

    @cached_property
    def vocab_size(self) -> int:
        """Number of token ids, special ones included, padding at the end excluded."""
        size = self._size
        while self._backend.convert_ids_to_tokens(size - 1) == f"[PAD{size - 1}]":
            size -= 1
        return size

    def mask(self, grammar: str) -> Mask:
        """The mask of an answer's grammar; raises `InvalidRequestError` for an invalid one.

        The first one takes a second with a large vocabulary.
        """
        return self._grammars.mask(grammar)

    @cached_property
    def _grammars(self) -> Grammars:
        # The tokens of `convert_ids_to_tokens`, including those only the configuration adds.
        core = self._backend.backend_tokenizer.to_str()
        return Grammars(core, self.vocab_size, self.end_ids)

    @cached_property
    def end_ids(self) -> frozenset[int]:
        ids = self._backend.get_vocab()
        ends = [self._backend.eos_token_id]
        ends += [ids.get(token) for token in ("<|im_end|>", "<|eot_id|>", "<|end|>")]
        return frozenset(end for end in ends if end is not None)

    @cached_property
    def fingerprint(self) -> str:
        """Identifies each token's meaning and the end tokens; must match on both sides of a link.

        It does not depend on whether they come from a `tokenizer.json` or a `.gguf` file. How text
        is tokenized and what a template adds are not part of it: only tokens cross the link.
        """
        digest = hashlib.sha256(repr(sorted(self.end_ids)).encode())
        for token in range(self.vocab_size):
            piece = self.piece(token)
            digest.update(len(piece).to_bytes(4) + piece)
        return digest.hexdigest()[:32]

    def encode(self, text: str) -> list[int]:
        """Tokens of plain text; special tokens in it are not recognised."""
        return _ids(self._plain, text)

    def read(self, text: str) -> list[int]:
        """Tokens of a text that may name special tokens; none are added at its ends."""
        return _ids(self._backend.backend_tokenizer, text)

    def around(self, before: Sequence[int], behind: str) -> list[int]:
        """Tokens of a text and the one after a gap, marked so that the model fills the gap.

        Raises `InvalidRequestError` if the model has no marks for that.
        """
        if (marks := self._marks) is None:
            raise InvalidRequestError(
                "suffix: not supported by this model, which has no tokens to fill in between two "
                "texts; leave it out",
                param="suffix",
                code="unsupported_parameter",
            )
        first, second, last = map(self._backend.convert_tokens_to_ids, marks[:3])
        return [first, *before, second, *self._going_on(behind), last]

    @cached_property
    def filled(self) -> frozenset[int]:
        """Tokens that end what is written between two texts."""
        ids = self._backend.get_vocab()
        ends = () if self._marks is None else self._marks.ends
        return frozenset(ids[end] for end in ends if end in ids)

    @cached_property
    def _marks(self) -> Marks | None:
        known = self._backend.get_vocab().keys()
        return next((marks for marks in SPELLINGS if known >= set(marks[:3])), None)

    def _going_on(self, text: str) -> list[int]:
        """Tokens of a text that follows another, without the space that SentencePiece prepends."""
        if self.byte_level:
            return self.read(text)
        return self.read(_APART + text)[len(self.read(_APART)) :]

    @cached_property
    def _longest_token(self) -> int:
        return max(map(len, self._backend.get_vocab()))

    def least_tokens(self, characters: int) -> int:
        """The least number of tokens of a text of this length."""
        return -(-characters // self._longest_token)

    def framed(self, ids: Sequence[int]) -> list[int]:
        """Tokens of plain text with the model's special tokens around it."""
        start, end = self._specials
        return [*start, *ids, *end]

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """Text of tokens, without special ones unless `special`."""
        text: str = self._plain.decode(list(ids), skip_special_tokens=not special)
        return text

    def piece(self, token: int) -> bytes:
        """The bytes of one token, perhaps parts of characters; of a special token its name."""
        piece: str = self._backend.convert_ids_to_tokens(token)
        if token in self._backend.added_tokens_decoder:
            return piece.encode()
        if self.byte_level:
            return bytes(_BYTES[character] for character in piece)
        if len(piece) == 6 and piece.startswith("<0x"):
            return bytes.fromhex(piece[3:5])
        return piece.replace("\u2581", " ").encode()

    def name(self, token: int) -> str:
        name: str = self._backend.convert_ids_to_tokens(token)
        return name

    @cached_property
    def byte_level(self) -> bool:
        """Whether pieces are spelt with one letter per byte, as GPT-2's are."""
        return "ByteLevel" in str(self._backend.backend_tokenizer.decoder)

    @cached_property
    def by_text(self) -> dict[str, int]:
        """Tokens by their text; without those that share it or are not whole characters."""
        pieces = [self.piece(token) for token in range(self.vocab_size)]
        shared = {piece for piece, count in Counter(pieces).items() if count > 1}
        found = {}
        for token, piece in enumerate(pieces):
            if piece and piece not in shared:
                with suppress(UnicodeDecodeError):
                    found[piece.decode()] = token
        return found

    def text_of(self, ids: Sequence[int]) -> str | None:
        """The text that tokenizes to exactly these tokens, special ones included, if there is one.

        Special tokens that the tokenizer itself adds at the beginning are not in it.
        """
        start = self._specials[0]
        if list(ids[: len(start)]) != start:
            return None
        text = self.decode(ids[len(start) :], special=True)
        return text if self.parsed(text) == list(ids) else None

    def parsed(self, text: str) -> list[int]:
        """Tokens of a text as a model server reads it: special ones by name and at its ends."""
        ids: list[int] = self._backend(text)["input_ids"]
        return ids

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """The character span of every token of `text`."""
        spans: list[tuple[int, int]] = self._plain.encode(text, add_special_tokens=False).offsets
        return spans

    @property
    def chats(self) -> bool:
        """Whether it has a chat template; without one, chats are rendered as plain text."""
        return self._backend.chat_template is not None

    @property
    def call_form(self) -> CallFormat | None:
        return self._template.form

    @property
    def reasons(self) -> bool:
        return self._template.reasons

    @property
    def variables(self) -> frozenset[str]:
        return self._template.variables

    def conversation(self, messages: Sequence[Message]) -> list[int]:
        """Tokens of a conversation, up to where the assistant's next turn begins; see `chat`."""
        return self.chat(messages).tokens

    def chat(self, messages: Sequence[Message], rendering: Rendering = Rendering()) -> Chat:
        """A conversation as the chat template renders it, after what is in a row.

        Raises `InvalidRequestError` if the template refuses the messages or the tools.
        """
        if not messages:
            raise InvalidRequestError("messages must not be empty", param="messages")
        return self._template.chat(messages, rendering)

    def document_row(
        self, document: str, *, raw: bool = False, begins: Begins = Begins.TURNS
    ) -> list[int]:
        """Tokens of `[constant prefix][document]`, before a conversation with these `begins`.

        `raw`: before a prompt without a template.
        """
        opening = self._template.opening(Begins.TURNS if raw else begins)
        close = self.encode("\n\n") if raw else opening.close
        return [*opening.before, *self.encode(document), *close]

    def bare_row(self, *, raw: bool = False, begins: Begins = Begins.TURNS) -> list[int]:
        """Tokens before a conversation without a document."""
        return list(self._start if raw else self._template.opening(begins).bare)

    @cached_property
    def _specials(self) -> tuple[list[int], list[int]]:
        """The special tokens before a text and after it."""
        inner = self.encode("a")
        ids: list[int] = self._backend("a")["input_ids"]
        start = next(i for i in range(len(ids)) if ids[i : i + len(inner)] == inner)
        return ids[:start], ids[start + len(inner) :]


def _ids(core: tokenizers.Tokenizer, text: str) -> list[int]:
    if len(text) < _LONG:
        ids: list[int] = core.encode(text, add_special_tokens=False).ids
    else:  # only a batch releases the interpreter lock
        ids = core.encode_batch([text], add_special_tokens=False)[0].ids
    return ids


class Marks(NamedTuple):
    """The special tokens with which a model marks two texts, and the gap between them to fill.

    `before` precedes the first text, `behind` the one after the gap, and `between` what is written.
    Besides the usual end tokens, one of `ends` ends that text, if the model has it.
    """

    before: str
    behind: str
    between: str
    ends: tuple[str, ...] = ()


SPELLINGS = (
    # Qwen2.5-Coder, CodeGemma
    Marks(
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
        ("<|endoftext|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|file_separator|>"),
    ),
    # StarCoder, Granite
    Marks(
        "<fim_prefix>",
        "<fim_suffix>",
        "<fim_middle>",
        ("<|endoftext|>", "<fim_pad>", "<repo_name>", "<file_sep>"),
    ),
    # DeepSeek-Coder
    Marks("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    # CodeLlama
    Marks("▁<PRE>", "▁<SUF>", "▁<MID>", ("▁<EOT>",)),
)
