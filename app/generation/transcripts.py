"""Chats that stand in one text: programs send them to have a title, or what may be asked next.

Their turns cannot be told apart as those of a conversation can, of which the cloud sees only what
it was given before; and no document of anybody's says what a chat is to be called.
"""

from __future__ import annotations

import re

_ASKS, _ANSWERS = r"(?:user|human)", r"(?:assistant|ai|model|bot)"
# A line that begins with a role, a template's mark of one, or JSON that names it.
_TURN = r"""(?:
    ^[^\w\n]*{role}\**\s*:
    | <\|?(?:im_start|start_header_id|start_of_turn)\|?>\s*{role}\b(?:<\|end_header_id\|>)?
    | <\|{role}\|>
    | "role"\s*:\s*"{role}"
)\s*"""
_FLAGS = re.IGNORECASE | re.MULTILINE | re.VERBOSE
_ASKED = re.compile(_TURN.format(role=_ASKS), _FLAGS)
_ANSWERED = re.compile(_TURN.format(role=_ANSWERS) + r"[^\s<]", _FLAGS)


def holds_a_chat(text: str) -> bool:
    """Whether a question with its answer stands in a text, each as somebody's turn."""
    return bool(_ASKED.search(text) and _ANSWERED.search(text))
