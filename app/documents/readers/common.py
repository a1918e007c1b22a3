"""Messages and text clean-up shared by all readers."""

from __future__ import annotations

import re

from dragon.localizable import Localizable, localizable

PAGE_BREAK = "\f"
ENCRYPTED = localizable("file.encrypted", "The file is encrypted. Save it without a password.")
NESTED = localizable("file.nested", "The file is nested too deeply to be read.")
NO_TEXT = localizable("file.no_text", "The file has no text in it.")

_NOT_TEXT = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\ufffe\uffff\ud800-\udfff]")
_SPACES = re.compile(r"[^\S\n]+")
_BLANK_LINES = re.compile(r"\n{3,}")


def damaged(kind: str) -> Localizable:
    """What to say of a file of some kind that its own program wrote differently."""
    return localizable(
        "file.damaged",
        "This {kind} file is damaged. Open it elsewhere and save it again.",
        kind=kind,
    )


class UnreadableError(Exception):
    """The file cannot be read; the message says why."""

    def __init__(self, message: Localizable) -> None:
        super().__init__(message)
        self.message = message


def clean(text: str) -> str:
    """The text with line feeds alone between lines, and without control characters."""
    return _NOT_TEXT.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def tidy(text: str) -> str:
    """Clean text with single spaces, and at most one blank line in a row."""
    lines = (_SPACES.sub(" ", line).strip() for line in clean(text).split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()


def unwrapped(page: str) -> str:
    """The text of a page with its lines joined where only the page's width broke them."""
    page = page.replace("\r\n", "\n").replace("\r", "\n").replace(PAGE_BREAK, "\n")
    page = re.sub(r"[\ufffe\u00ad]\n?", "", page)  # a word divided at the end of a line
    lines = [line.strip() for line in clean(page).split("\n")]
    full = 0.7 * max(map(len, lines))
    pieces = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        runs_on = len(line) >= full and not line.endswith((".", "!", "?", ":")) and following
        pieces += [line, " " if runs_on else "\n"]
    return "".join(pieces)


def one_line(text: str) -> str:
    """The text on one line, with single spaces."""
    return " ".join(clean(text).replace(PAGE_BREAK, " ").split())
