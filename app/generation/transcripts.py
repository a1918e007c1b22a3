"""Recognises a whole chat within one text, as programs send it to ask for a title or for questions.

Its turns cannot be told apart like those of a conversation, to hide some of them from the cloud;
and no document says what a chat should be called.
"""

from __future__ import annotations

import re

_ASKS = r"(?:user|human|benutzer|nutzer|usuario)"
_ANSWERS = r"(?:assistant|assistent|asistente|ai|model|(?:chat[ ]?)?(?:bot|gpt))"
# A line that begins with a role, perhaps after a time, or is just a role; a template's marker of a
# role, or a tag; JSON, YAML or an attribute that names it.
_TURN = r"""(?:
    ^(?:[^\w\n]|\d)*{role}(?:[^\w\n]|\d){{0,6}}[:\uff1a]\**
    | ^[^\w\n]*[\#\[*=]\W?{role}[^\w\n]*$
    | <\W{{0,3}}(?:\w{{1,20}}\W{{1,4}}){{0,2}}{role}(?:_token)?\b[^\w\s<]{{0,3}}
      (?:<[^<>]{{1,20}}>(?:final)?)*
    | \brole\b["'\\]*\s*[:=]\s*["'\\]*{role}\b["'\\]*
    {more})\s*"""
_FLAGS = re.IGNORECASE | re.MULTILINE | re.VERBOSE
_ASKED = re.compile(_TURN.format(role=_ASKS, more=r"| \[INST\] | \b(?-i:USER):"), _FLAGS)
_ANSWERED = re.compile(
    _TURN.format(role=_ANSWERS, more=r"| \[/INST\] | \b(?-i:ASSISTANT):") + r"[^\s<\[]", _FLAGS
)


def holds_a_chat(text: str) -> bool:
    """Whether a text contains a question and an answer, each marked as somebody's turn."""
    return bool(_ASKED.search(text) and _ANSWERED.search(text))
