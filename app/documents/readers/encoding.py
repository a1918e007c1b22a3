"""The text of bytes in any encoding: what they say it is, UTF-8, or else the likeliest."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from app.documents.readers.common import clean
from dragon.localizable import Localizable, localizable

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before that of UTF-16, with which it begins
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# In which people's files are. Of more a short text is taken for a rare one.
_LIKELY = [
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "koi8_r",
    "cp932", "euc_jp", "gb18030", "big5", "cp949",
]  # fmt: skip
_USUAL = "cp1252"
# What is called by these names is that of Windows, as browsers have it.
_MISNAMED = {"iso8859-1": "cp1252", "ascii": "cp1252", "shift_jis": "cp932", "gb2312": "gb18030"}
_SAMPLE = 1 << 18  # bytes, of which the encoding is told
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_FEW, _SHARE = 3, 0.001  # control characters of a text that something has left in it


@dataclass(frozen=True)
class Decoded:
    """A text, and by which encoding if that was guessed."""

    text: str
    guessed: str = ""

    @property
    def note(self) -> Localizable | None:
        """What to say of a guess."""
        if not self.guessed:
            return None
        guess = "The file does not say how its letters are encoded; {encoding} was guessed."
        return localizable("file.note.encoding", guess, encoding=self.guessed)


def decoded(data: bytes, declared: str = "") -> Decoded | None:
    """The text, without the control characters that a program left in it; None for other data.

    What is `declared` is believed where the bytes can be that, and say nothing else.
    """
    text, guessed = _text(data, declared)
    most = 0 if guessed else max(_FEW, _SHARE * len(text or ""))
    if text is None or len(_CONTROLS.findall(text)) > most:
        return None
    return Decoded(clean(text), guessed)


def _text(data: bytes, declared: str) -> tuple[str | None, str]:
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
    return _likeliest(data)


def _likeliest(data: bytes) -> tuple[str | None, str]:
    from charset_normalizer import from_bytes  # most files do without

    matches = from_bytes(data[:_SAMPLE], cp_isolation=_LIKELY, preemptive_behaviour=False)
    if (best := matches.best()) is None:
        return None, ""
    usual = [each for each in matches if _USUAL in each.could_be_from_charset]
    encoding = _USUAL if any(each.chaos <= best.chaos for each in usual) else best.encoding
    return data.decode(encoding, "replace"), encoding
