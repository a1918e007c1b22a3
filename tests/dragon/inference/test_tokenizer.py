"""Text at the edge: rows that add up to the chat template, and text that streams unbroken."""

from __future__ import annotations

import threading
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers
from transformers import PreTrainedTokenizerFast

from dragon.errors import ConfigurationError, InvalidRequestError
from dragon.inference.chat_template import PLAIN_TEMPLATE
from dragon.inference.reading import TextStream
from dragon.inference.tokenizer import SPELLINGS, Marks, Message, Tokenizer
from harness.models import SMALL_MODEL
from tests.templates import backend

EMBEDDED = SMALL_MODEL
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WITH_DEFAULT = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}"
    + CHATML
)
QUESTION = [Message("user", "Where do I live?")]
TALK = [*QUESTION, Message("assistant", "In Ulm."), Message("user", "Since when?")]
DOCUMENTS = [
    "My sister lives in Ulm.",
    "Zürich – 100 €",
    "line one\nline two\n\nline three",
    "雪 ☃",
]


TEMPLATES = {"embedded": None, "chatml": CHATML, "default": WITH_DEFAULT, "plain": None}


@cache
def tokenizer(name: str) -> Tokenizer:
    return Tokenizer.load(EMBEDDED) if name == "embedded" else Tokenizer(backend(TEMPLATES[name]))


def whole(name: str, messages: list[Message]) -> list[int]:
    """Tokens of the full template in one go."""
    of = tokenizer(name)._backend
    rendered = of.apply_chat_template(
        [{"role": m.role, "content": m.content} for m in messages],
        chat_template=of.chat_template or PLAIN_TEMPLATE,
        add_generation_prompt=True,
        tokenize=False,
    )
    ids: list[int] = of.encode(rendered, add_special_tokens=False)
    return ids


names = pytest.mark.parametrize("name", TEMPLATES)


@names
@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("talk", [QUESTION, TALK], ids=["question", "talk"])
def test_a_document_row_is_the_template_with_the_document_as_system_message(
    name: str, document: str, talk: list[Message]
) -> None:
    of = tokenizer(name)
    row = [*of.document_row(document), *of.conversation(talk)]
    assert row == whole(name, [Message("system", document), *talk])


@names
def test_a_bare_row_is_the_template_without_a_document(name: str) -> None:
    of = tokenizer(name)
    row = [*of.bare_row(), *of.conversation(TALK)]
    assert row == whole(name, TALK)


@names
def test_document_rows_share_their_prefix_and_fit_any_conversation(name: str) -> None:
    of = tokenizer(name)
    one, other = of.document_row("My sister."), of.document_row("A brother.")
    raw = of.document_row("My sister.", raw=True)
    size = len(raw) - len(of.encode("My sister.")) - len(of.encode("\n\n"))
    assert one[:size] == other[:size] == raw[:size]
    assert raw[size:] == [*of.encode("My sister."), *of.encode("\n\n")]


@names
def test_special_tokens_in_a_document_are_text(name: str) -> None:
    of = tokenizer(name)
    for special in of._backend.all_special_tokens:
        text = f"before {special} after"
        ids = of.encode(text)
        assert not set(ids) & set(of._backend.all_special_ids)
        assert of.decode(ids) == text
        row, empty = of.document_row(text), of.document_row("")
        assert len(row) == len(ids) + len(empty)
        specials = set(of._backend.all_special_ids)
        assert sum(i in specials for i in row) == sum(i in specials for i in empty)


@names
def test_a_long_text_has_the_tokens_of_a_short_one_and_holds_up_no_thread(name: str) -> None:
    of = tokenizer(name)
    text = "My sister lives in Nairobi, on Kenyatta Avenue 17.\n" * 4_000
    over = threading.Event()
    turns = 0

    def turn() -> None:
        nonlocal turns
        while not over.wait(0.001):
            turns += 1

    thread = threading.Thread(target=turn)
    thread.start()
    ids = of.encode(text)
    over.set()
    thread.join()
    assert ids == of._plain.encode(text, add_special_tokens=False).ids
    assert turns > 10
    assert of.least_tokens(len(text)) <= len(ids)


@names
def test_offsets_belong_to_the_tokens_of_encode(name: str) -> None:
    of = tokenizer(name)
    for text in ["My sister lives.", *(f"a{s}b" for s in of._backend.all_special_tokens)]:
        assert len(of.offsets(text)) == len(of.encode(text))
        assert of.offsets(text)[-1][1] == len(text)


def test_what_a_tokenizer_says_of_itself() -> None:
    embedded, chatml = tokenizer("embedded"), tokenizer("chatml")
    assert embedded.vocab_size == len(embedded._backend)
    assert embedded.end_ids
    assert max(embedded.end_ids) < embedded.vocab_size
    assert len(chatml.end_ids) == 2
    assert tokenizer("plain").fingerprint == chatml.fingerprint != embedded.fingerprint
    assert chatml.fingerprint == Tokenizer(backend(CHATML)).fingerprint


def test_refusals() -> None:
    with pytest.raises(InvalidRequestError):
        tokenizer("chatml").conversation([])
    with pytest.raises(ConfigurationError):
        Tokenizer.load(EMBEDDED / "nowhere")
    refusing = Tokenizer(backend("{{ raise_exception('no') }}"))
    with pytest.raises(InvalidRequestError, match="no"):
        refusing.conversation(QUESTION)
    blind = Tokenizer(backend("{{ messages[-1].content }}"))
    with pytest.raises(ConfigurationError, match="system"):
        blind.conversation(QUESTION)
    with pytest.raises(ConfigurationError, match="no place for a system message"):
        blind.document_row("DOCUMENT")


# Streams.

texts = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("é雪日本語😀👩👨👧\u200d❤️🇩🇪 \n\ta"),
    max_size=30,
)


def stream(of: Tokenizer, pushes: list[list[int]], stop: list[str]) -> tuple[str, bool]:
    text = TextStream(of, stop)
    said = "".join([*(text.push(push) for push in pushes), text.finish()])
    return said, text.stopped


@st.composite
def splits(draw: st.DrawFn, ids: list[int]) -> list[list[int]]:
    """The tokens, cut anywhere."""
    cuts = sorted(draw(st.sets(st.integers(0, len(ids)), max_size=8)))
    edges = [0, *cuts, len(ids)]
    return [ids[start:end] for start, end in pairwise(edges)]


@pytest.mark.parametrize("name", ["embedded", "plain"])
@settings(max_examples=300)
@given(text=texts, data=st.data())
@example(text="👩‍👩‍👧‍👦 日本 🇩🇪", data=None)
def test_a_stream_says_what_its_tokens_say(
    name: str, text: str, data: st.DataObject | None
) -> None:
    of = tokenizer(name)
    ids = of.encode(text)
    assert of.decode(ids) == text
    pushes = [[token] for token in ids]
    assert stream(of, pushes, []) == (text, False)
    if data is not None:
        assert stream(of, data.draw(splits(ids)), []) == (text, False)


def test_several_tokens_at_once_that_end_inside_a_character() -> None:
    of = tokenizer("plain")
    ids = of.encode("abc😀")
    assert len(ids) == 7
    for cut in range(len(ids) + 1):
        assert stream(of, [ids[:cut], ids[cut:]], []) == ("abc😀", False)


def first_end(text: str, stop: list[str]) -> str:
    """The text up to the stop string that is complete first; the longest, if several are."""
    ends = [(text.index(s) + len(s), text.index(s)) for s in stop if s in text]
    return text[: min(ends)[1]] if ends else text


@settings(max_examples=300)
@given(
    st.text("abc😀", max_size=14),
    st.lists(st.text("abc😀", min_size=1, max_size=4), min_size=1, max_size=3),
    st.data(),
)
def test_stop_strings_end_the_text_wherever_tokens_are_cut(
    text: str, stop: list[str], data: st.DataObject
) -> None:
    of = tokenizer("plain")
    said, stopped = stream(of, data.draw(splits(of.encode(text))), stop)
    assert said == first_end(text, stop)
    assert stopped == any(s in text for s in stop)


def test_text_that_may_begin_a_stop_string_is_held_back() -> None:
    of = tokenizer("plain")
    text = TextStream(of, ["abab!"])
    assert text.push(of.encode("xabab")) == "x"
    assert text.push(of.encode("ab")) == "ab"
    assert (text.stopped, text.met) == (False, None)
    assert text.push(of.encode("!tail")) == ""
    assert (text.stopped, text.met) == (True, "abab!")
    assert (text.push(of.encode("more")), text.finish()) == ("", "")


def test_an_unfinished_character_ends_as_a_replacement() -> None:
    of = tokenizer("plain")
    text = TextStream(of)
    assert text.push(of.encode("a😀")[:-1]) in ("", "a")
    assert text.finish().endswith("\ufffd")


@settings(max_examples=200)
@given(st.lists(st.integers(0, 329), max_size=40))
def test_any_tokens_at_all(ids: list[int]) -> None:
    """Tokens that are no UTF-8 come out as the decoder has them, split as they may be."""
    of = tokenizer("plain")
    ids = [i % of.vocab_size for i in ids]
    assert stream(of, [[token] for token in ids], [])[0] == of.decode(ids)


def test_end_tokens_say_nothing() -> None:
    of = tokenizer("embedded")
    text, end = TextStream(of), next(iter(of.end_ids))
    assert text.push([*of.encode("Ulm."), end]) + text.finish() == "Ulm."


@names
@pytest.mark.parametrize("text", [*DOCUMENTS, "👩‍👩‍👧‍👦 日本 🇩🇪"])
def test_the_bytes_of_tokens_are_those_of_their_text(name: str, text: str) -> None:
    own = tokenizer(name)
    assert b"".join(map(own.piece, own.encode(text))).decode() == text


def test_the_bytes_of_special_tokens_and_of_other_alphabets() -> None:
    assert tokenizer("chatml").piece(2) == b"<|im_end|>"
    vocabulary = {"\u2581a": 0, "<0xE2>": 1, "b": 2}
    core = Backend(models.BPE(vocabulary, [], byte_fallback=True))
    core.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback()])
    sentencepiece = Tokenizer(PreTrainedTokenizerFast(tokenizer_object=core))
    assert [sentencepiece.piece(token) for token in range(3)] == [b" a", b"\xe2", b"b"]


@pytest.mark.parametrize("marks", SPELLINGS, ids=lambda marks: marks.before)
def test_a_text_is_marked_with_the_one_behind_it_as_each_family_does(marks: Marks) -> None:
    made = backend(None)
    names = [*marks[:3], *marks.ends[-1:]]
    made.add_special_tokens({"additional_special_tokens": names})
    own = Tokenizer(made)
    marked = own.around(own.read("where "), " when")
    before, behind, between, *ends = map(made.convert_tokens_to_ids, names)
    assert marked == [before, *own.read("where "), behind, *own.read(" when"), between]
    assert own.filled == set(ends)


def test_without_all_marks_none_are_set() -> None:
    made = backend(None)
    names = ["<|fim_prefix|>", "<|fim_suffix|>", "<fim_middle>"]
    made.add_special_tokens({"additional_special_tokens": names})
    with pytest.raises(InvalidRequestError, match="suffix: not supported by this model"):
        Tokenizer(made).around([1], "a")


def test_no_space_is_put_before_what_stands_behind_a_text() -> None:
    pieces = ["\u2581", "a", "b", "<0xE2>", "<0x98>", "<0xBA>"]
    names = ["\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>"]
    core = Backend(models.BPE({each: n for n, each in enumerate(pieces)}, [], byte_fallback=True))
    core.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    core.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback()])
    made = PreTrainedTokenizerFast(tokenizer_object=core)
    made.add_special_tokens({"additional_special_tokens": names})
    own = Tokenizer(made)
    assert own.read("b") == [0, 2]
    before, behind, between = map(made.convert_tokens_to_ids, names)
    assert own.around(own.read("a"), "b a") == [before, 0, 1, behind, 2, 0, 1, between]


def test_a_vocabulary_padded_at_its_end_is_the_same() -> None:
    whole, padded = backend(CHATML), backend(CHATML)
    size = len(whole)
    padded.add_tokens([f"[PAD{number}]" for number in range(size, size + 3)])
    assert len(padded) == size + 3
    assert Tokenizer(padded).vocab_size == Tokenizer(whole).vocab_size == size
    assert Tokenizer(padded).fingerprint == Tokenizer(whole).fingerprint
    assert Tokenizer(whole, size - 1).fingerprint != Tokenizer(whole).fingerprint


def test_a_tokenizer_json_is_its_directory() -> None:
    """With what stands beside it: which tokens end a text, and the template."""
    named = Tokenizer.load(EMBEDDED / "tokenizer.json")
    whole = tokenizer("embedded")
    assert named.fingerprint == whole.fingerprint
    assert named.conversation(QUESTION) == whole.conversation(QUESTION)


def test_text_stands_for_tokens_where_it_is_cut_into_them_again() -> None:
    of = tokenizer("embedded")
    ids = of.document_row("Zürich – 100 €") + of.conversation(QUESTION)
    assert of.parsed(of.text_of(ids)) == ids
    apart = [*of.encode("ho"), *of.encode("use")]
    assert of.encode("house") != apart
    assert of.text_of(apart) is None


def test_tokens_by_their_text() -> None:
    of = tokenizer("embedded")
    (house,) = of.encode(" house")
    assert of.by_text[" house"] == house
    halves = [token for token in range(256, 512) if not is_text(of.piece(token))]
    assert not set(halves) & set(of.by_text.values())


def is_text(piece: bytes) -> bool:
    return bool(piece.decode(errors="ignore"))
