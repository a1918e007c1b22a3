"""The words that the built-in language model's adapter was trained with."""

from collections.abc import Sequence

ALONE = "Rewrite the last question so that it stands alone."
"""Before a conversation whose last question is to be rewritten to stand alone."""

EVERYDAY = "You are DRAGON, a friendly assistant on the user's own computer. Reply briefly."
"""Before a message that needs no document."""


def transcript(turns: Sequence[tuple[str, str]]) -> str:
    """A conversation, (role, text) each, as one text."""
    return "\n".join(f"{role.capitalize()}: {text}" for role, text in turns)
