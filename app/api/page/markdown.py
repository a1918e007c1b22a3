"""Markdown to safe HTML, block by block while it is being written.

A top-level block is final once another one begins, so it is rendered and sent once; only the last,
open one is rendered again. Nothing in a text gets through as HTML: markdown-it escapes it, nh3
passes only what is listed here, and code is coloured by classes alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from app.documents.redaction import REDACTED
from app.storage.tables import Phrase
from dragon.retrieval.prompt_rows import NO_ANSWER

_TAGS = {
    *("p", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "hr", "br"),
    *("ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td"),
    *("em", "strong", "s", "a", "code", "pre", "span", "div"),
}
_ATTRIBUTES = {
    "a": {"href", "title", "target"},
    "span": {"class"},
    "div": {"class", "tabindex", "role", "aria-label"},
    "pre": {"tabindex"},
    "ol": {"start"},
    "th": {"class"},
    "td": {"class"},
}
_SCHEMES = {"http", "https", "mailto"}
_LEXED = 20_000
"""Characters of code that are coloured; longer code is shown plain."""
_SMALL = 2_000
_GROWTH = 1.08
"""An open block longer than `_SMALL` characters is rendered again when it has grown by this factor,
which keeps the work for a block linear in its length."""

_SEAM = '<span class="seam" role="note" data-testid="seam" data-joint="{}">{}</span>'
_PHRASE = '<span class="phrase" data-phrase="{}">{}</span>'
_SAID: dict[bool | Phrase, str] = {
    False: _SEAM.format("false", "From here on the device writes alone."),
    True: _SEAM.format("true", "The cloud joins in from here."),
    Phrase.NO_ANSWER: _PHRASE.format(Phrase.NO_ANSWER, NO_ANSWER),
    Phrase.REDACTED: _PHRASE.format(Phrase.REDACTED, REDACTED),
}
# Placeholders for these while a block is rendered: private-use characters, which are removed from
# the text.
_MARKS = dict(zip(_SAID, "\ue000\ue001\ue004\ue005", strict=True))
_NO_MARKS = str.maketrans(dict.fromkeys(_MARKS.values(), "\ufffd"))
# Between two words of running text, where a mark changes no meaning.
_GAP = re.compile(r"[^\W\d_][.,;:!?)]*()(?: |\n(?=[^\W\d_]))")
_TAG = re.compile(r"""(<(?:[^"'>]|"[^"]*"|'[^']*')*>)""")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_FORMAT = HtmlFormatter(nowrap=True)


@dataclass(frozen=True)
class Block:
    """A top-level block: where its Markdown begins in the whole text, and its HTML.

    `tail` is Markdown at its end that is not in the HTML yet.
    """

    start: int
    text: str
    html: str
    tail: str = ""


class MarkdownStream:
    """A growing text, as blocks."""

    def __init__(self) -> None:
        self._open = ""
        self._start = 0
        self._grown = (0, 0)  # characters and seams that `grow` has taken
        self._seams: list[tuple[int, bool]] = []
        self._phrases: Sequence[Sequence[Any]] = ()
        self._rendered = Block(0, "", "")
        self._env: dict[str, Any] = {}  # link definitions apply to everything after them

    def grow(
        self,
        text: str,
        seams: Sequence[tuple[int, bool]] = (),
        phrases: Sequence[Sequence[Any]] = (),
    ) -> None:
        """Update to the whole text, all its seams and phrases, by character offset."""
        self._phrases = phrases
        length, known = self._grown
        for offset, joint in seams[known:]:
            self._open += text[length:offset].translate(_NO_MARKS)
            self._seams.append((self._start + len(self._open), joint))
            length = offset
        self._open += text[length:].translate(_NO_MARKS)
        self._grown = (len(text), len(seams))

    def take(self) -> list[Block]:
        """The blocks completed since the last call."""
        size, before = len(self._open), len(self._rendered.text)
        if size == before or (size > _SMALL and size < _GROWTH * before):
            return []
        # A half-written link definition must not stay: the first of several counts.
        return self._closed(deepcopy(self._env))

    def _closed(self, env: dict[str, Any]) -> list[Block]:
        lines = _LINE.findall(self._open)
        tokens = _PARSER.parse(self._open, env)
        # What precedes the first block belongs to it: blank lines, link definitions.
        starts = [t.map[0] for t in tokens if t.level == 0 and t.nesting >= 0 and t.map][1:]
        closed = [
            self._close("".join(lines[first:after]))
            for first, after in zip([0, *starts], starts, strict=False)
        ]
        self._rendered = self._block(self._open, deepcopy(self._env))
        return closed

    def open(self) -> Block | None:
        """The last block, as far as it is written."""
        if not self._open.strip():
            return None
        done = self._rendered
        return Block(self._start, self._open, done.html, self._open[len(done.text) :])

    def finish(self) -> list[Block]:
        """The text is complete: the rest of its blocks."""
        blocks = self._closed(self._env) if self._open else []
        if self._open.strip():
            blocks.append(self._close(self._open))
        return blocks

    def _close(self, text: str) -> Block:
        block = self._block(text, self._env)
        self._start += len(text)
        self._open = self._open[len(text) :]
        # A seam without a gap between two words goes after the block.
        here = [seam for seam in self._seams if seam[0] < self._start or not self._open]
        self._seams = [seam for seam in self._seams if seam not in here]
        late = [joint for offset, joint in here if _gap(text, offset - block.start) is None]
        return replace(block, html=block.html + "".join(_SAID[joint] for joint in late))

    def _block(self, text: str, env: dict[str, Any]) -> Block:
        marks = [
            (start - self._start, end - self._start, _MARKS[Phrase(phrase)])
            for start, end, phrase in self._phrases
            if self._start <= start and end <= self._start + len(text)
        ]
        phrases = tuple(marks)
        for offset, joint in reversed(self._seams):
            if (gap := _gap(text, offset - self._start)) is not None:
                gap = next((end for start, end, _ in phrases if start < gap < end), gap)
                marks.append((gap, gap, _MARKS[joint]))
        marked = text
        for start, end, mark in sorted(marks, key=lambda each: each[:2], reverse=True):
            marked = marked[:start] + mark + marked[end:]
        return Block(self._start, text, _html(marked, env))


def render(
    text: str, seams: Sequence[tuple[int, bool]] = (), phrases: Sequence[Sequence[Any]] = ()
) -> list[Block]:
    """Render a whole text; `seams` are character offsets with whether the cloud joins there.

    `phrases`, the device's own, are offsets and a `Phrase`.
    """
    stream = MarkdownStream()
    stream.grow(text, seams, phrases)
    return stream.finish()


def _gap(text: str, offset: int) -> int | None:
    """The first place from `offset` on where a mark may go between two words."""
    gaps = (found.start(1) for found in _GAP.finditer(text))
    return next((gap for gap in gaps if gap >= offset), None)


def _html(text: str, env: dict[str, Any]) -> str:
    html = nh3.clean(
        str(_PARSER.render(text, env)),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        url_schemes=_SCHEMES,
        link_rel="noopener noreferrer nofollow",
    )
    return _unmarked(html)


def _unmarked(html: str) -> str:
    """Replace marks by seams and phrases; marks inside an attribute are dropped."""
    if not any(mark in html for mark in _MARKS.values()):
        return html
    pieces = _TAG.split(html)
    for what, mark in _MARKS.items():
        pieces[::2] = [piece.replace(mark, _SAID[what]) for piece in pieces[::2]]
    return "".join(pieces).translate(_NO_MARKS)


def _code(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    """A block of code, coloured if its language is known, with a place for a copy button."""
    token = tokens[index]
    language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
    code = escape(token.content, quote=False)
    if language and len(token.content) <= _LEXED:
        with suppress(ClassNotFound):
            code = highlight(token.content, get_lexer_by_name(language, stripnl=False), _FORMAT)
    return (
        f'<div class="code"><div class="code-head">{escape(language)}</div>'
        f'<pre tabindex="0"><code>{code}</code></pre></div>'
    )


def _image(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """A link instead of an image: showing it would tell its server that it was viewed."""
    token = tokens[index]
    text = renderer.renderInlineAsText(token.children, options, env)
    address = str(token.attrs.get("src", ""))
    return f'<a href="{escape(address)}" target="_blank">{escape(text or "image")}</a>'


def _link(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    tokens[index].attrSet("target", "_blank")
    return str(renderer.renderToken(tokens, index, options, env))


def _cell(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Alignment as a class, since inline styles are not allowed."""
    style = str(tokens[index].attrs.pop("style", ""))
    if style:
        tokens[index].attrSet("class", style.removeprefix("text-align:"))
    return str(renderer.renderToken(tokens, index, options, env))


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    for name in ("fence", "code_block"):
        parser.add_render_rule(name, _code)
    parser.add_render_rule("image", _image)
    parser.add_render_rule("link_open", _link)
    for name in ("th_open", "td_open"):
        parser.add_render_rule(name, _cell)
    scrolling = '<div class="table" tabindex="0" role="region" aria-label="Table"><table>'
    parser.add_render_rule("table_open", lambda *_: scrolling)
    parser.add_render_rule("table_close", lambda *_: "</table></div>")
    return parser


_PARSER = _parser()
