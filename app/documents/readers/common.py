"""Messages and helpers of all readers: cleaning text up, and decoding bytes in any encoding."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import MaxLen

from dragon.localizable import Localizable, localizable

ENCRYPTED = localizable("file.encrypted", "The file is encrypted. Save it without a password.")
NESTED = localizable("file.nested", "The file is nested too deeply to be read.")
NO_TEXT = localizable("file.no_text", "The file has no text in it.")
TOO_MUCH = localizable(
    "file.costly", "The file takes too much time or memory to read. Split it into smaller ones."
)

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
    """The message for a damaged file of some kind."""
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


@dataclass(frozen=True)
class FileText:
    """The text of each page of a file, and its properties.

    `note` says what could not be read, or not for certain; `confidence`, in percent, is that of
    pages recognised in a picture, by their number from 1.
    """

    pages: list[str]
    note: Localizable | None = None
    properties: Properties = Properties()
    confidence: Mapping[int, int] = field(default_factory=dict)


class UnreadableError(Exception):
    """The file cannot be read; the message says why."""

    def __init__(self, message: Localizable) -> None:
        super().__init__(message)
        self.message = message


def unreadable(code: str, english: str, /, **values: str | int) -> UnreadableError:
    """The error with a message as `localizable` makes it."""
    return UnreadableError(localizable(code, english, **values))


def too_many_pages(most: int) -> UnreadableError:
    """The error of a file with more than so many pages."""
    return unreadable("file.pages", "The file has more than {count} pages. Split it.", count=most)


def clean(text: str) -> str:
    """The text with line feeds alone, plain letters, and no invisible characters."""
    text = _NOT_TEXT.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return text.translate(_PLAIN) if _NOT_PLAIN.search(text) else text  # translating is slow


def tidy(text: str) -> str:
    """Clean text with single spaces, and at most one blank line in a row."""
    lines = (_SPACES.sub(" ", line).strip() for line in clean(text).split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()


def one_line(text: str) -> str:
    """The text on one line, with single spaces."""
    return " ".join(clean(text).split())


# Decoding: in the encoding that the bytes declare, in UTF-8, or else in the likeliest.


_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before that of UTF-16, with which it begins
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Encodings of people's files. With more of them, a short text is taken for a rare one.
_LIKELY = [
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "koi8_r",
    "cp932", "euc_jp", "gb18030", "big5", "cp949",
]  # fmt: skip
_USUAL = "cp1252"
# These names mean encodings of Windows, as in browsers.
_MISNAMED = {"iso8859-1": "cp1252", "ascii": "cp1252", "shift_jis": "cp932", "gb2312": "gb18030"}
_SAMPLE = 1 << 18  # bytes, from which the encoding is guessed
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_FEW, _SHARE = 3, 0.001  # control characters that a text may have: how many, or what share


@dataclass(frozen=True)
class Decoded:
    """A text, and its encoding if that was guessed."""

    text: str
    guessed: str = ""

    @property
    def note(self) -> Localizable | None:
        """The note about a guess, if it was one."""
        if not self.guessed:
            return None
        guess = "The file does not say how its letters are encoded; {encoding} was guessed."
        return localizable("file.note.encoding", guess, encoding=self.guessed)


def decoded(data: bytes, declared: str = "") -> Decoded | None:
    """The text, without the few control characters that it may have; None for other data.

    The encoding `declared` is believed if the bytes are valid in it, and say nothing else.
    """
    text, guessed = _text(data, declared)
    most = 0 if guessed else max(_FEW, _SHARE * len(text or ""))
    if text is None or len(_CONTROLS.findall(text)) > most:
        return None
    return Decoded(clean(text), guessed)


def _text(data: bytes, declared: str) -> tuple[str | None, str]:
    """The text, if any, and its encoding if that was guessed."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace"), ""
    # UTF-16 without a mark has zeros in every other byte of most letters.
    even, odd = data[:_SAMPLE:2].count(0), data[1:_SAMPLE:2].count(0)
    if even + odd > 0.2 * len(data[:_SAMPLE]) and not (even and odd):
        return data.decode("utf-16-be" if even else "utf-16-le", "replace"), ""
    for encoding in filter(None, ("utf-8", declared)):
        try:
            name = codecs.lookup(encoding).name
            return data.decode(_MISNAMED.get(name, name)), ""
        except (LookupError, UnicodeDecodeError):
            continue
    from charset_normalizer import from_bytes  # most files do without

    matches = from_bytes(data[:_SAMPLE], cp_isolation=_LIKELY, preemptive_behaviour=False)
    if (best := matches.best()) is None:
        return None, ""
    usual = [each for each in matches if _USUAL in each.could_be_from_charset]
    encoding = _USUAL if any(each.chaos <= best.chaos for each in usual) else best.encoding
    return data.decode(encoding, "replace"), encoding
