"""A model's greedy reply to a message, written alongside other answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from dragon.inference import scoring
from dragon.inference.engine import Engine
from dragon.inference.rows import Row
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.protocol.messages import Work
from dragon.sampling import mixture
from dragon.sampling.params import Sampling

_GREEDY = Sampling(0.0)


async def written(
    engine: Engine, tokenizer: Tokenizer, asked: str, limit: int, row: Row | None = None
) -> AsyncGenerator[int, None]:
    """The likeliest tokens of a reply, at most `limit`; it continues past end tokens.

    `row` is what precedes the message, by default nothing. Closing the generator frees the engine.
    Raises `DragonError` if the model fails.
    """
    decoder = engine.open(
        [row or Row(tuple(tokenizer.bare_row()), 0.0)],
        tokenizer.conversation([Message("user", asked)]),
        limit=limit,
    )
    try:
        await asyncio.wrap_future(decoder.prefilled)
        work = Work(0, (), 1, 0)
        for position in range(min(limit, decoder.horizon)):
            (side,) = await asyncio.wrap_future(scoring.run(engine, decoder, work))
            token = mixture.draft(side, _GREEDY, position)
            yield token
            work = Work(position, (token,), 1, 0)
    finally:
        engine.close(decoder)
