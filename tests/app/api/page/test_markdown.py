from __future__ import annotations

import re

import pytest

from app.api.page import markdown
from app.api.page.markdown import Block, MarkdownStream, render

SAMPLE = """# A *title*

Some **bold** text, `code` and a [link](https://example.org "tip").
It goes on, and on.

| a | b |
|---|--:|
| 1 | 2 |

```python
def f(x):
    return "a"
```

1. one
2. two

   more of two

> quoted
"""


def html(blocks: list[Block]) -> str:
    return "".join(block.html for block in blocks)


@pytest.mark.parametrize("step", [1, 7, 64])
def test_a_text_that_grows_ends_as_the_whole(step: int) -> None:
    stream, blocks = MarkdownStream(), []
    for at in range(0, len(SAMPLE), step):
        stream.grow(SAMPLE[: at + step])
        blocks += stream.take()
        if (last := stream.open()) is not None:
            assert last.start == sum(len(block.text) for block in blocks)
    blocks += stream.finish()
    assert html(blocks) == html(render(SAMPLE))
    assert "".join(block.text for block in blocks) == SAMPLE
    assert [SAMPLE[b.start :].startswith(b.text) for b in blocks] == [True] * len(blocks)
    assert '<span class="k">def</span>' in html(blocks)
    assert '<td class="right">2</td>' in html(blocks)


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        '<svg onload="alert(1)"><a href="javascript:alert(1)">x</a></svg>',
        "[x](javascript:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "![x](https://example.org/pixel.png)",
        "![x](javascript:alert(1))",
        '[x](https://example.org "&quot; onmouseover=&quot;alert(1)")',
        "<https://example.org/\"onclick='alert(1)'>",
        '```"><script>alert(1)</script>\ncode\n```',
        "```html\n<script>alert(1)</script>\n```",
        "| <b onclick=x> |\n|---|\n| <iframe src=//example.org> |",
        "<style>@import '//example.org'</style>",
        "\ue000 \ue001",
    ],
)
def test_nothing_gets_through_as_html(hostile: str) -> None:
    shown = html(render(f"before {hostile}\n\n{hostile}\n", [(3, False)]))
    tags = re.findall(r"<([a-z0-9]+)((?:[^\"'>]|\"[^\"]*\"|'[^']*')*)>", shown)
    assert {name for name, _ in tags} <= markdown._TAGS
    for _, attributes in tags:
        names = re.findall(r'\s([a-z-]+)="', re.sub(r'"[^"]*"', '""', attributes))
        assert not [name for name in names if name.startswith("on") or name in ("style", "src")]
        for address in re.findall(r'href="([^"]*)"', attributes):
            assert address.startswith(("https://example.org", "mailto:"))
    assert shown.count('data-joint="false"') == 1


def test_a_definition_counts_once_it_is_whole() -> None:
    stream = MarkdownStream()
    text = "Before.\n\n[here]: https://elsewhere.example/a\n\nLook [here].\n"
    blocks = []
    for end in range(len(text)):
        stream.grow(text[: end + 1])
        blocks += stream.take()
    blocks += stream.finish()
    assert 'href="https://elsewhere.example/a"' in blocks[-1].html


def test_links_tell_nobody_where_they_were_followed() -> None:
    assert 'rel="noopener noreferrer nofollow"' in html(render("[x](https://example.org)"))


@pytest.mark.parametrize(
    ("text", "around"),
    [
        ("One two three.", ("One", " two")),
        ("- item one\n- item two", ("item", " one")),
        ("x\n\n| a b |\n|---|\n| c |", ("a", " b")),
    ],
)
def test_a_seam_stands_between_two_words(text: str, around: tuple[str, str]) -> None:
    before, after = around
    at = text.index(before) + 1
    shown = html(render(text, [(at, False)]))
    assert re.search(rf"{before}<span class=\"seam\"[^>]*>[^<]*</span>{after}", shown)
    assert re.sub(r"<span class=\"seam\".*?</span>", "", shown) == html(render(text))


def test_a_seam_behind_a_sentence_stands_before_the_next() -> None:
    shown = html(render("It is red. The door is blue.", [(len("It is red."), False)]))
    assert re.search(r"It is red\.<span class=\"seam\"[^>]*>[^<]*</span> The door", shown)


def test_a_seam_without_a_gap_follows_its_block() -> None:
    shown = html(render("```\ncode(1)\n```\n\nEnd", [(6, True)]))
    assert shown.index("</pre>") < shown.index('data-joint="true"') < shown.index("End")


def test_the_work_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters rendered a character written, in one block that never ends."""
    work = 0
    rendered = markdown._html

    def counted(text: str, env: dict[str, object]) -> str:
        nonlocal work
        work += len(text)
        return rendered(text, env)

    monkeypatch.setattr(markdown, "_html", counted)
    costs = []
    for length in (20_000, 80_000):
        work, stream, text = 0, MarkdownStream(), "```\n"
        for _ in range(length // 40):
            text += "a line of code with a word or two in it\n"
            stream.grow(text)
            stream.take()
        costs.append(work / length)
    assert costs[1] < 1.5 * costs[0]


def test_phrases_of_the_device_are_marked_for_the_page() -> None:
    phrase = "[words of a deleted document]"
    text = f"The **{phrase}** and `{phrase}`.\n\nSee [x](y) {phrase}."
    places = [found.start() for found in re.finditer(re.escape(phrase), text)]
    phrases = [(at, at + len(phrase), "redacted") for at in places]
    span = f'<span class="phrase" data-phrase="redacted">{phrase}</span>'
    first, second = render(text, phrases=phrases)
    assert f"<strong>{span}</strong> and <code>{span}</code>." in first.html
    assert f"{span}.</p>" in second.html
    assert "phrase" not in html(render(text))
    # What joins in the middle of one stands behind it.
    (block,) = render(phrase + " and on it goes", [(3, True)], [(0, len(phrase), "redacted")])
    assert block.html.startswith(f'<p>{span}<span class="seam"')


def test_a_phrase_is_whole_as_soon_as_it_begins() -> None:
    stream = MarkdownStream()
    stream.grow("I fou", [], [(0, 5, "no_answer")])
    stream.take()
    opened = stream.open()
    assert opened is not None
    assert ">I found no direct answer.</span>" in opened.html
    assert opened.tail == ""
