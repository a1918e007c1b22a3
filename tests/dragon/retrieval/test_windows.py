"""Windows of passages: everything once, in order, with what it stands under."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragon.retrieval.embedder import Window, windows
from tests.samples import embedder


def words(text: str) -> list[int]:
    """A token a letter."""
    return [ord(each) for each in text]


def said(window: Window) -> str:
    return "".join(map(chr, window.ids))


def test_a_context_is_said_once() -> None:
    passages = [
        ("On 19 July.", "2. Fair"),
        ("In the park.", "2. Fair: On 19 July."),
        ("Bring cups.", "2. Fair: On 19 July."),
        ("They rise.", "3. Rents"),
    ]
    (window,) = windows(passages, words, 100)
    assert said(window) == "2. FairOn 19 July.In the park.Bring cups.3. RentsThey rise."


def test_a_new_window_says_its_context_again() -> None:
    passages = [("aaaa", "top"), ("bbbb", "top"), ("cccc", "top")]
    assert [said(window) for window in windows(passages, words, 11)] == ["topaaaabbbb", "topcccc"]


@given(
    passages=st.lists(st.tuples(st.text("ab", max_size=30), st.text("xy: ", max_size=20))),
    most=st.integers(1, 40),
)
def test_every_passage_has_its_span(passages: list[tuple[str, str]], most: int) -> None:
    spans = []
    for window in windows(passages, words, most):
        assert len(window.ids) <= most
        spans += [said(window)[start:end] for start, end in window.spans]
    assert spans == [text[:most] for text, _ in passages]


def test_a_passage_by_itself_has_the_vector_of_its_text() -> None:
    text = "The spare key hangs under the third flowerpot."
    (alone,) = embedder().embed([text])
    (pooled,) = embedder().embed_passages([(text, "")])
    assert float(alone @ pooled) > 0.99999


def test_a_passage_among_others_is_near_its_text() -> None:
    texts = ["The spare key hangs outside.", "Tea is served at four.", "The lamp is lit at dusk."]
    alone = embedder().embed(texts)
    pooled = embedder().embed_passages([(text, "") for text in texts])
    assert (alone @ pooled.T).argmax(axis=1).tolist() == [0, 1, 2]
