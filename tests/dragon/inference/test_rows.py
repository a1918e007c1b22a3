"""Exact quotes: what each row may write, and who has a say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragon.inference.rows import Quote, Quoting

END = 0


def quote(*tokens: int) -> Quote:
    """Behind another one it begins with a space, which is 9."""
    return Quote(tokens, (9, *tokens))


ONE, TWO, THREE = quote(1, 2, 3), quote(1, 2, 4), quote(5)
SIDE = Quoting([(ONE,), (TWO,), (THREE,)], [END])


def test_a_quote_is_begun_at_its_beginning_and_ends_at_its_end() -> None:
    assert SIDE.allowed([]) == [{1}, {1}, {5}]
    assert SIDE.allowed([1]) == [{2}, {2}, set()]
    assert SIDE.allowed([1, 2]) == [{3}, {4}, set()]
    assert SIDE.allowed([1, 2, 3]) == [{END}, {END, 9}, {END, 9}]


def test_another_quote_follows_behind_a_space_and_none_twice() -> None:
    assert SIDE.allowed([5, 9]) == [{1}, {1}, set()]
    assert SIDE.allowed([5, 9, 1, 2]) == [{3}, {4}, set()]
    assert SIDE.allowed([5, 9, 1, 2, 3]) == [{END}, {END, 9}, {END}]


def test_what_is_no_quote_of_this_side_leaves_it_without_a_say() -> None:
    for text in ([7], [2], [1, 2, 3, 4], [5, 1]):
        assert SIDE.allowed(text) == [set(), set(), set()]


def test_a_row_without_quotes_writes_freely() -> None:
    assert Quoting([(), (ONE,)], [END]).allowed([7]) == [None, set()]
    assert Quoting([(), ()], [END]).free
    assert not SIDE.free


def test_a_row_may_hold_quotes_of_which_one_begins_another() -> None:
    longer = Quote((5, 6), (9, 5, 6))
    assert Quoting([(THREE, longer)], [END]).allowed([5]) == [{END, 6, 9}]


quotes = st.lists(st.integers(1, 3), min_size=1, max_size=4).map(lambda t: quote(*t))


@given(st.lists(st.lists(quotes, max_size=2).map(tuple), min_size=1, max_size=3), st.data())
def test_whatever_is_chosen_the_answer_is_whole_quotes(
    rows: list[tuple[Quote, ...]], data: st.DataObject
) -> None:
    """No way leads to a dead end, and every end is behind a whole quote."""
    side = Quoting(rows, [END])
    text: list[int] = []
    while not (text and text[-1] == END):
        allowed = set().union(*(each or () for each in side.allowed(text)))
        if not allowed:
            assert not text
            assert not any(rows)
            return
        text.append(data.draw(st.sampled_from(sorted(allowed))))
    assert tuple(text[:-1]) in ways(rows)


def ways(rows: list[tuple[Quote, ...]]) -> set[tuple[int, ...]]:
    """All texts of distinct quotes."""
    every = {each for row in rows for each in row}

    def after(used: frozenset[Quote]) -> set[tuple[int, ...]]:
        found: set[tuple[int, ...]] = {()} if used else set()
        for each in every - used:
            spelt = each.later if used else each.first
            found |= {spelt + rest for rest in after(used | {each})}
        return found

    return after(frozenset())
