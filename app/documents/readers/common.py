"""Messages and text clean-up shared by all readers."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Annotated

from annotated_types import MaxLen

from dragon.localizable import Localizable, localizable

PAGE_BREAK = "\f"
ENCRYPTED = localizable("file.encrypted", "The file is encrypted. Save it without a password.")
NESTED = localizable("file.nested", "The file is nested too deeply to be read.")
NO_TEXT = localizable("file.no_text", "The file has no text in it.")

_NOT_TEXT = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\ufffe\uffff\ud800-\udfff]")
_PLAIN = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff")) | {
    letter: unicodedata.normalize("NFKC", chr(letter))
    for start, end in ((0xFF10, 0xFF1A), (0xFF21, 0xFF3B), (0xFF41, 0xFF5B), (0xFB00, 0xFB07))
    for letter in range(start, end)
}
_NOT_PLAIN = re.compile(f"[{''.join(map(chr, _PLAIN))}]")
_SPACES = re.compile(r"[^\S\n]+")
_BLANK_LINES = re.compile(r"\n{3,}")


def damaged(kind: str) -> Localizable:
    """What to say of a file of some kind that its own program wrote differently."""
    english = "This {kind} file is damaged. Open it elsewhere and save it again."
    return localizable("file.damaged", english, kind=kind)


LONGEST_PROPERTY, MOST_TAGS = 200, 50  # characters of a title, a date or a tag; tags
_Said = Annotated[str, MaxLen(LONGEST_PROPERTY)]


@dataclass(frozen=True)
class Properties:
    """What a file says of itself beside its text; the date is in ISO 8601, as exact as it says."""

    title: _Said | None = None
    date: _Said | None = None
    tags: Annotated[tuple[_Said, ...], MaxLen(MOST_TAGS)] = ()


NOTHING = Properties()


class UnreadableError(Exception):
    """The file cannot be read; the message says why."""

    def __init__(self, message: Localizable) -> None:
        super().__init__(message)
        self.message = message


def unreadable(code: str, english: str, /, **values: str | int) -> UnreadableError:
    """The error with a message as `localizable` makes it."""
    return UnreadableError(localizable(code, english, **values))


def clean(text: str) -> str:
    """The text with line feeds alone between lines, without characters that nobody sees.

    Letters and figures of a width of their own, and several letters in one, become plain ones.
    """
    text = _NOT_TEXT.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return text.translate(_PLAIN) if _NOT_PLAIN.search(text) else text  # translating is slow


def tidy(text: str) -> str:
    """Clean text with single spaces, and at most one blank line in a row."""
    lines = (_SPACES.sub(" ", line).strip() for line in clean(text).split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()


def one_line(text: str) -> str:
    """The text on one line, with single spaces."""
    return " ".join(clean(text).replace(PAGE_BREAK, " ").split())
