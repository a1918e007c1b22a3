"""A passage spends its privacy budget over all answers, and never more than it has."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.ledger.spending import Spending, digest_of_passage
from app.owners import DEVICE
from dragon.errors import InvalidRequestError
from dragon.sampling.privacy import Budget

Sessions = async_sessionmaker[AsyncSession]
ONE, OTHER = (
    digest_of_passage(text, DEVICE) for text in ("The key is under the mat.", "The code is 4471.")
)


async def test_answers_add_up_until_nothing_is_left(sessions: Sessions) -> None:
    spending = Spending(sessions)
    answers = 0
    while sum(await spending.spent([ONE])) < 14.0:
        await spending.reserve([ONE], Budget.of(4.0, 8), 16.0)
        answers += 1
    with pytest.raises(InvalidRequestError, match=r"cloud: never"):
        await spending.reserve([ONE], Budget.of(4.0, 8), 16.0)
    (spent,) = await spending.spent([ONE])
    # Answers of one epsilon compose better than by adding their epsilons.
    assert answers > 4
    assert 4.0 < spent <= 16.0
    # Of two passages neither is charged if one has nothing left.
    with pytest.raises(InvalidRequestError):
        await spending.reserve([OTHER, ONE], Budget.of(4.0, 8), 16.0)
    # Another instance, as after a restart, knows it.
    assert await Spending(sessions).spent([ONE, OTHER]) == [spent, 0.0]


async def test_what_was_not_needed_is_given_back(sessions: Sessions) -> None:
    spending = Spending(sessions)
    budget = Budget.of(4.0, 8)
    await spending.reserve([ONE, OTHER], budget, 16.0)
    # A device that is killed now has spent it all.
    assert await Spending(sessions).spent([ONE]) == pytest.approx([4.0])
    budget.charge(budget.share)
    spending.settle([ONE, OTHER], budget)
    assert await spending.spent([ONE, OTHER]) == pytest.approx([budget.epsilon] * 2)
    assert 0.0 < budget.epsilon < 4.0
    unused = Budget.of(1.0, 8)
    other = digest_of_passage("Nothing of it was said.", DEVICE)
    await spending.reserve([other], unused, 16.0)
    spending.settle([other], unused)
    assert await spending.spent([other]) == [0.0]


async def test_answers_at_once_cannot_overdraw(sessions: Sessions) -> None:
    spending = Spending(sessions)
    taken = await asyncio.gather(
        *(spending.reserve([ONE], Budget.of(4.0, 8), 8.0) for _ in range(8)), return_exceptions=True
    )
    assert any(isinstance(each, InvalidRequestError) for each in taken)
    (spent,) = await spending.spent([ONE])
    assert spent <= 8.0


async def test_what_ones_passage_has_spent_says_nothing_of_anothers(sessions: Sessions) -> None:
    """Whoever guesses a passage must not learn from its budget that somebody has it."""
    spending = Spending(sessions)
    text = "The key is under the mat."
    await spending.reserve([digest_of_passage(text, "anna")], Budget.of(4.0, 8), 8.0)
    assert await spending.spent([digest_of_passage(text, "ben")]) == [0.0]
    assert digest_of_passage(text, DEVICE) == ONE
