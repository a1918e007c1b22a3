"""Text out of files of every kind, and files that mean harm.

Covers `app.documents.parse_worker`, `app.documents.readers.archive`,
`app.documents.readers.common`, `app.documents.readers.markup`,
`app.documents.readers.office`, `app.documents.readers.read`, `app.documents.readers.sniff` and
`app.documents.readers.spreadsheet`.
"""

from __future__ import annotations

import asyncio
import fcntl
import mailbox
import os
import re
import sys
import termios
from collections.abc import Callable
from dataclasses import asdict
from datetime import date, datetime
from pathlib import Path

import pytest

from app.documents import parsing as parsing_module
from app.documents.parsing import Parsing
from app.documents.readers.sniff import FileKind
from dragon.errors import DocumentError
from dragon.inference.fairness import HOUSEHOLD, Household
from harness.pdf import pdf
from tests.documents import (
    SHARED,
    archive,
    docx,
    email,
    epub,
    paragraph,
    parse,
    pdf_bomb,
    refused,
    styled_xlsx,
    text_of,
    word_table,
    xlsx,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("shared_parsing")]


async def test_pages_are_joined_by_form_feeds(tmp_path: Path) -> None:
    kind, text = await text_of(tmp_path, "a.pdf", pdf("One (1).", "", "Three."))
    assert kind is FileKind.PDF
    assert [page.strip() for page in text.split("\f")] == ["One (1).", "", "Three."]


HTML = b"""<!DOCTYPE html><html><head><title>The hut</title><style>p { color: red }</style></head>
<body><script>bad()</script><h1>Keys</h1><p>The key hangs
<b>left</b> of the door.</p><!-- nothing --><ul><li>axe<li>lamp</ul>
<table><tr><th>Guest<th>Room</tr><tr><td>Anna<td>4</tr><tr><td>Bob<td>7</tr></table></body></html>"""


async def test_html(tmp_path: Path) -> None:
    kind, text = await text_of(tmp_path, "a.txt", HTML)
    assert kind is FileKind.HTML
    assert text.splitlines() == [
        *("The hut", "", "# Keys", "", "The key hangs left of the door.", "", "- axe", "- lamp"),
        *("", "Guest: Anna; Room: 4", "Guest: Bob; Room: 7"),
    ]
    latin = '<html><head><meta charset="iso-8859-1"></head><p>Größe</p>'.encode("latin-1")
    assert (await text_of(tmp_path, "b.html", latin))[1] == "Größe"


@pytest.mark.parametrize(
    "mark",
    [
        '<a href="#n1" epub:type="noteref">1</a>',
        '<a href="#n1" role="doc-noteref">1</a>',
        '<a href="#n1"><sup>1</sup></a>',
        '<sup><a href="#n1">[1]</a></sup>',
        '<sup><a href="#n1">[note 1]</a></sup>',
        '<sup><a href="#n1">†</a></sup>',
    ],
)
async def test_the_number_of_a_note_is_no_part_of_a_year(tmp_path: Path, mark: str) -> None:
    page = f'<html><p>It burned since 1862{mark}, on 2 m<sup>2</sup>.</p><p id="n1">1. So.</p>'
    _, text = await text_of(tmp_path, "a.html", page.encode())
    assert text == "It burned since 1862, on 2 m2.\n\n1. So."


@pytest.mark.parametrize(
    ("link", "read"),
    [
        ('<a href="#emc">E=mc<sup>2</sup></a>', "E=mc2"),
        ('<a href="rooms.html#hall">Hall of 12 m<sup>2</sup></a>', "Hall of 12 m2"),
        ('the 3<sup><a href="#third">rd</a></sup> day', "the 3rd day"),
    ],
)
async def test_raised_text_of_a_link_is_read(tmp_path: Path, link: str, read: str) -> None:
    _, text = await text_of(tmp_path, "a.html", f"<html><p>See {link}.</p>".encode())
    assert text == f"See {read}."


async def test_docx(tmp_path: Path) -> None:
    body = (
        paragraph("The hut", "Heading2")
        + paragraph("The key hangs left of the door.")
        + "<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>"
        + word_table(("Guest", "Room"), ("Anna", "4"), ("Bob", "7"))
        + "<w:p><w:r><w:t>After</w:t><w:tab/><w:t>all.</w:t></w:r></w:p>"
    )
    content = docx(body, footnotes=paragraph("Built in 1911."))
    kind, text = await text_of(tmp_path, "a.zip", content)
    assert kind is FileKind.DOCX
    assert text.split("\n\n") == [
        "## The hut",
        "The key hangs left of the door.",
        "Guest: Anna; Room: 4\nGuest: Bob; Room: 7",
        "After all.",
        "Built in 1911.",
    ]


async def test_xlsx(tmp_path: Path) -> None:
    content = xlsx(
        {
            "Stores": [
                ["Stores of 2024"],
                [],
                ["id", "city", "revenue", "open", "since"],
                ["S001", "Lyon; Nord", 2_778_000, True, date(2019, 5, 1)],
                ["S002", "Nice", 0.1 + 0.2, False, datetime(2020, 5, 1, 9, 30)],
            ],
            "Empty": [],
            "Staff & more": [["name", "hours"], ["Ann", 40], ["Ben"]],
        }
    )
    kind, text = await text_of(tmp_path, "a.bin", content)
    assert kind is FileKind.XLSX
    assert text.split("\n\n") == [
        "# Stores",
        "Stores of 2024",
        "id: S001; city: Lyon; Nord; revenue: 2778000; open: yes; since: 2019-05-01\n"
        "id: S002; city: Nice; revenue: 0.3; open: no; since: 2020-05-01 09:30:00",
        "# Staff & more",
        "name: Ann; hours: 40\nname: Ben",
    ]


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        # Lines above the header, as banks export them; a sentence below.
        ("a.csv", "Account:;DE00 12;;\nFrom:;1 May;;\n\nDay;Payee;For;Sum\n02.03.;Ober;rent;-7\n"
         "03.03.;Kun;oil;-8\n04.03.;Roth;salt;-9\nAll sums are in euros of this year.;;;\n",
         ["Account: DE00 12", "From: 1 May", "", "Day: 02.03.; Payee: Ober; For: rent; Sum: -7",
          "Day: 03.03.; Payee: Kun; For: oil; Sum: -8",
          "Day: 04.03.; Payee: Roth; For: salt; Sum: -9",
          "", "All sums are in euros of this year."]),
        ("a.csv", "Choir account 7\nJanuary to March\nEuros\n\nDay;Payee;Sum\n2.1.;Ober;-7,50\n"
         "9.2.;Kun;8,25\n",
         ["Choir account 7", "January to March", "Euros", "", "Day: 2.1.; Payee: Ober; Sum: -7,50",
          "Day: 9.2.; Payee: Kun; Sum: 8,25"]),
        ("a.csv", "sep=|\nName|City\nAnna|Rome\n", ["Name: Anna; City: Rome"]),
        ("a.csv", "Region,2023,2024\nNorth,120,135\n", ["Region: North; 2023: 120; 2024: 135"]),
        ("a.csv", "Name,Phone,Phone\nAnna,111,222\n", ["Name: Anna; Phone: 111; Phone (2): 222"]),
        ("a.csv", "Bolt,2021,2022\nNut,2023,2024\n", ["Bolt; 2021; 2022", "Nut; 2023; 2024"]),
        # Names over names, and cells that reach over rows and columns.
        ("a.html", "<html><table><tr><th><th colspan=2>Sales<tr><th>Region<th>2024<th>2025"
         "<tr><td>North<td>10<td>20</table>", ["Region: North; Sales 2024: 10; Sales 2025: 20"]),
        ("a.html", "<html><table><tr><th>Day<th>Room<tr><td rowspan=2>Mon<td>Hall<tr><td>Attic"
         "<tr><td>Tue<td>Hall</table>",
         ["Day: Mon; Room: Hall", "Day: Mon; Room: Attic", "Day: Tue; Room: Hall"]),
        ("a.html", "<html><table><tr><th>Room<th>Has<tr><td>Attic<td><table><tr><td>Bed<td>Oak"
         "</table></table>", ["Room: Attic; Has: Bed; Oak"]),
    ],
)  # fmt: skip
async def test_tables_are_the_grid_that_a_person_sees(
    tmp_path: Path, name: str, content: str, lines: list[str]
) -> None:
    assert (await text_of(tmp_path, name, content.encode()))[1].strip().split("\n") == lines


async def test_spans_in_docx(tmp_path: Path) -> None:
    merged = '<w:tcPr><w:vMerge w:val="restart"/></w:tcPr>', "<w:tcPr><w:vMerge/></w:tcPr>"
    table = word_table(("Day", "Room"), ("Mon", "Hall"), ("", "Attic"))
    table = table.replace(f"<w:tc>{paragraph('Mon')}", f"<w:tc>{merged[0]}{paragraph('Mon')}")
    table = table.replace(f"<w:tc>{paragraph('')}", f"<w:tc>{merged[1]}{paragraph('')}")
    _, text = await text_of(tmp_path, "a.docx", docx(table))
    assert text == "Day: Mon; Room: Hall\nDay: Mon; Room: Attic"


async def test_numbers_are_as_their_formats_show_them(tmp_path: Path) -> None:
    cells = {
        "rate": ("0.0%", 0.0325, "3.3%"),
        "fee": ('"$"#,##0.00', 1234.5, "$1,234.50"),
        "net": ("#,##0;(#,##0)", -4200, "(4,200)"),
        "price": ("[$€-407] 0.00", 7.125, "€ 7.13"),
        "day": ("yyyy-mm-dd", date(2026, 5, 3), "2026-05-03"),
        "share": ("General", 0.5, "0.5"),
        "quoted": ('0.0"%"', 7.5, "7.5%"),
        "escaped": ("0.0\\%", 7.5, "7.5%"),
        "local": ("[$-407]#,##0.00", 1234.5, "1,234.50"),
        "crew": ('0.0 "men; all"', 5.5, "5.5 men; all"),
    }
    formats, values, _ = map(list, zip(*cells.values(), strict=True))
    content = styled_xlsx([*cells], formats, values)
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_bytes(content)
    _, note = await parse(source, "a.xlsx", out)
    shown = "; ".join(f"{name}: {cell[2]}" for name, cell in cells.items())
    assert out.read_text().split("\n\n")[1] == shown
    assert note == (
        "1 formula cells have no result in the file and were left out. Open it in a spreadsheet "
        "program and save it again."
    )


async def test_epub(tmp_path: Path) -> None:
    kind, text = await text_of(tmp_path, "a.bin", epub("<p>One.</p>", "<img/>", "<p>Two.</p>"))
    assert (kind, text) == (FileKind.EPUB, "One.\fTwo.")


MARKDOWN = r"""# Boats

| Boat | Class | Built |
|:-----|-------|------:|
| Old Heron | eight | 1998 |
| Teal \| Wigeon | pair | 2004 |

They lie | as ever | in the shed.

```
| a | b |
|---|---|
| 1 | 2 |
```
"""
ROWS = """Boat: Old Heron; Class: eight; Built: 1998
Boat: Teal | Wigeon; Class: pair; Built: 2004
"""


async def test_markdown_is_as_it_stands_but_for_tables(tmp_path: Path) -> None:
    kind, text = await text_of(tmp_path, "a.md", MARKDOWN.encode())
    assert kind is FileKind.MARKDOWN
    first, rest = MARKDOWN.split("| Boat |")[0], MARKDOWN.split("2004 |\n")[1]
    assert text == first + ROWS + rest


FRONT = """---
title: "The hut: keys"
date: 2026-03-02
tags: [hut, "#keys", hut, 7]
aliases: {nested: [1]}
---

The key of [[Places/Kogel|the hut]] hangs left. See [[Guests]], [[Guests#Anna]].
And [[Places/Kogel#^a1b2]], ![[plan.png]], [[#Below]], [[|]] and `[[ "$x" ]] && y [[z]]`.

```sh
[[ -f x ]] && cat [[note]]
```

| Boat | Built |
|---|---|
| [[Boats/Teal\\|Teal]] | 2004 |
"""
READ = """# The hut: keys

The key of the hut hangs left. See Guests, Guests: Anna.
And Kogel, plan.png, Below, [[|]] and `[[ "$x" ]] && y [[z]]`.

```sh
[[ -f x ]] && cat [[note]]
```

Boat: Teal; Built: 2004
"""


async def properties_of(directory: Path, name: str, content: bytes) -> dict[str, object]:
    source = directory / "in"
    source.write_bytes(content)
    read = await SHARED[-1].parse(source, name, directory / "out")
    return asdict(read.properties)


async def test_front_matter_and_wiki_links(tmp_path: Path) -> None:
    assert await properties_of(tmp_path, "a.md", FRONT.encode()) == {
        "title": "The hut: keys",
        "date": "2026-03-02",
        "tags": ("hut", "keys", "7"),
    }
    assert (tmp_path / "out").read_text() == READ
    # The first heading is the title already.
    headed = b"---\ntitle: Other\ntags: a, b\n---\n# The hut\n\nText.\n"
    assert (await properties_of(tmp_path, "a.md", headed))["tags"] == ("a", "b")
    assert (tmp_path / "out").read_text() == "# The hut\n\nText.\n"


@pytest.mark.parametrize(
    "content",
    [
        "---\nA line between rules.\n---\nText.\n",
        "---\ntitle: [unclosed\n---\nText.\n",
        "---\ntitle: never closed\n\nText.\n",
        "---\ndate: 2026-99-99\n---\nText.\n",
    ],
)
async def test_what_is_no_front_matter_is_text(tmp_path: Path, content: str) -> None:
    assert (await text_of(tmp_path, "a.md", content.encode()))[1] == content


async def test_front_matter_that_means_harm(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]" for n in range(1, 30))]
    bomb = "\n".join(["---", *lines, "tags: *a29", f"title: {'x' * 60_000}", "---", "Text."])
    found = await properties_of(tmp_path, "a.md", bomb.encode())
    assert found == {"title": "x" * 200, "date": None, "tags": ()}


async def test_csv(tmp_path: Path) -> None:
    rows = 'name;phone;note\r\n"Anna; of Bonn";0171;"two\r\nlines"\r\n\r\nBob;;x\r\n'
    for name in ("a.csv", "a.txt"):
        kind, text = await text_of(tmp_path, name, rows.encode())
        assert kind is FileKind.CSV
        assert text.splitlines() == [
            "name: Anna; of Bonn; phone: 0171; note: two lines",
            "name: Bob; note: x",
        ]
    numbers = b"1,2\n3,4\n"
    assert (await text_of(tmp_path, "a.csv", numbers))[1] == "1; 2\n3; 4"
    wide = (
        ",".join(f"column{n}" for n in range(40)) + "\n" + ",".join(f"value{n}" for n in range(40))
    )
    lines = (await text_of(tmp_path, "a.csv", wide.encode()))[1].splitlines()
    assert len(lines) > 2
    assert all(line.startswith("column0: value0; ") and len(line) < 320 for line in lines)


async def test_prose_with_commas_is_no_table(tmp_path: Path) -> None:
    prose = b"Dear Anna, dear Bob,\nthe key is gone, alas,\nso knock, please, twice.\n"
    assert (await text_of(tmp_path, "a.txt", prose))[0] is FileKind.TEXT


async def test_json(tmp_path: Path) -> None:
    value = b"""{"hut": "Kogel", "guests": [
        {"name": "Anna", "rooms": [4, 5], "address": {"city": "Bonn", "zip": null}},
        {"name": "Bob", "paid": true}]}"""
    kind, text = await text_of(tmp_path, "a.txt", value)
    assert kind is FileKind.JSON
    assert text.splitlines() == [
        "hut: Kogel",
        "guests; name: Anna; rooms: 4, 5",
        "guests (name: Anna).address; city: Bonn",
        "guests; name: Bob; paid: true",
    ]
    lines = await text_of(tmp_path, "a.log", b'{"a": 1}\n{"a": 2}\n')
    assert lines == (FileKind.JSON, "a: 1\na: 2")
    assert (await text_of(tmp_path, "a.json", b"{not json}"))[0] is FileKind.TEXT


async def test_email(tmp_path: Path) -> None:
    inner = email("Further below.", {})
    attached = {"plan.pdf": pdf("The plan."), "photo.png": b"\x89PNG", "older.eml": inner}
    kind, text = await text_of(tmp_path, "a.txt", email("The key hangs left.", attached))
    assert kind is FileKind.EMAIL
    assert text.startswith(
        "From: Anna Grünwald <anna@example.org>\nTo: bob@example.org\n"
        "Date: Mon, 02 Jun 2025 10:00:00 +0200\nSubject: The keys of the hut\n\n"
        "The key hangs left.\n"
    )
    assert "bad()" not in text
    assert "Attachment: plan.pdf\n\nThe plan." in text
    assert "Attachment (not read): photo.png" in text
    assert text.endswith("Further below.")
    assert await properties_of(tmp_path, "1700.M1.host:2,S", inner) == {
        "title": "The keys of the hut",
        "date": "2025-06-02T10:00:00+02:00",
        "tags": (),
    }


async def test_each_message_of_a_mailbox_is_headed_by_what_it_is(tmp_path: Path) -> None:
    box = mailbox.mbox(tmp_path / "box")
    for text in ("The key hangs left.", "From now on it hangs right.\n\nFrom Bob", "Attached."):
        box.add(email(text, {"plan.csv": b"room,bed\n4,two\n"} if "Att" in text else {}))
    box.close()
    data = (tmp_path / "box").read_bytes()
    kind, text = await text_of(tmp_path, "Inbox", data)
    assert kind is FileKind.MBOX
    heading = "# The keys of the hut, Anna Grünwald <anna@example.org>, 2025-06-02\n"
    first, second, third = text.split(heading)[1:]
    assert first.split("\n\n")[1] == "The key hangs left."
    assert "From now on it hangs right.\n\nFrom Bob" in second
    assert third.rstrip().endswith("Attachment: plan.csv\n\nroom: 4; bed: two")
    source = tmp_path / "in"
    source.write_bytes(data.replace(b"The key hangs left.", b"\xff\xfe").replace(b"\n", b"\r\n"))
    assert (await parse(source, "Inbox", tmp_path / "out"))[0] is FileKind.MBOX
    assert (tmp_path / "out").read_text().count(heading) == 3


async def test_prose_that_begins_like_a_mailbox_is_text(tmp_path: Path) -> None:
    prose = b"From the hut at 10:00\nto the lake: an hour.\n"
    assert (await text_of(tmp_path, "a.txt", prose))[0] is FileKind.TEXT


def compressed_otherwise(packed: bytes) -> bytes:
    """An archive whose entries say that they are compressed by Deflate64, which few can read."""
    local = re.sub(rb"(PK\x03\x04.{4})\x08", rb"\1\t", packed, flags=re.DOTALL)
    return re.sub(rb"(PK\x01\x02.{6})\x08", rb"\1\t", local, flags=re.DOTALL)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (archive({"a.txt": "text"}), "of another kind"),
        (compressed_otherwise(docx(paragraph("Text."))), "damaged"),
        (archive({"xl/workbook.bin": "x"}), "a binary Excel file"),
        (docx(""), "no text"),
        (epub("<p>Text.</p>", encrypted=True), "encrypted"),
        (b"<html><script>nothing()</script></html>", "no text"),
        # Those that mean harm.
        (archive({"word/document.xml": bytes(201 << 20)}), "unpacks to more than 200 MB"),
        (archive({f"{number}": b"" for number in range(10_001)}), "10000 parts"),
        (docx("<w:p>" * 100_000 + "</w:p>" * 100_000), "nested too deeply"),
        (
            archive(
                {
                    "word/document.xml": "<!DOCTYPE a ["
                    + "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(12))
                    + "]><a>&e12;</a>"
                }
            ),
            "no text|damaged",
        ),
        (b"<html>" + b"<div>" * 100_000 + b"deep", "nested too deeply"),
        (b"<html>" + b"<table><tr><td>" * 50_000 + b"deep", "nested too deeply"),
        (b"[" * 1_000_000, "nested too deeply"),
        (pdf(*[""] * 5001), "more than 5000 pages"),
    ],
)
async def test_what_cannot_be_read(tmp_path: Path, content: bytes, message: str) -> None:
    await refused(tmp_path, "a", content, message)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(lambda: pdf_bomb(400 << 20), id="PDF"),
        pytest.param(lambda: b"<html>" + b"<p><b><i>x" * 4_500_000, id="HTML"),
        pytest.param(
            lambda: docx("".join(["<w:p><w:r><w:t>x</w:t></w:r></w:p>"] * 1_500_000)), id="docx"
        ),
    ],
)
async def test_a_bomb_ends_within_the_limits(tmp_path: Path, content: Callable[[], bytes]) -> None:
    limits = {"_CPU_SECONDS": 2, "_MEMORY_BYTES": 300 << 20}
    await refused(tmp_path, "a", content(), r"too much|damaged|unpacks|nested", **limits)


@pytest.mark.timeout(60)  # the default clock is longer
async def test_a_parser_that_hangs_is_stopped(tmp_path: Path) -> None:
    source = tmp_path / "in"
    os.mkfifo(source)  # opening it waits for a writer that never comes
    with pytest.raises(DocumentError, match="too much time"):
        await parse(source, "a.txt", tmp_path / "out", _CLOCK_SECONDS=1)
    assert os.listdir(tmp_path) == ["in"]


async def test_a_parser_that_computes_too_long_is_stopped(tmp_path: Path) -> None:
    content = pdf(*["\n".join(["word " * 15] * 20_000)] * 8)
    await refused(tmp_path, "a.pdf", content, "too much time", _CPU_SECONDS=1)


async def test_a_cancelled_parse_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    source = tmp_path / "in"
    os.mkfifo(source)
    task = asyncio.create_task(parse(source, "a.txt", tmp_path / "out"))
    writer = await asyncio.to_thread(os.open, source, os.O_WRONLY)  # once the process reads it
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(BrokenPipeError):  # nobody reads it any more
        os.write(writer, b"text")
    os.close(writer)
    assert os.listdir(tmp_path) == ["in"]


async def test_a_parse_can_be_cancelled_while_nobody_takes_what_it_finds(tmp_path: Path) -> None:
    source, parsing = tmp_path / "in", Parsing()
    source.write_bytes(b"One.")
    await parsing.parse(source, "a.txt", tmp_path / "out")
    (worker,) = parsing._idle
    source.write_bytes(b"A sentence of the text. " * 200_000)

    async def take(_: object) -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(parsing.parse(source, "a.txt", tmp_path / "text", take))
    pipe, waiting = worker._stdout._transport.get_extra_info("pipe"), 0
    while waiting <= 1 << 15:  # there is more than it can write
        await asyncio.sleep(0.01)
        waiting = int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


@pytest.mark.parametrize("size", [24, (1 << 20) + 1], ids=["small", "large"])
async def test_files_of_one_household_hold_up_no_others(tmp_path: Path, size: int) -> None:
    source, parsing = tmp_path / "in", Parsing()
    source.write_bytes(b"A sentence of the text.".ljust(size))
    begun, over = asyncio.Event(), asyncio.Event()

    async def stay(_: object) -> None:
        begun.set()
        await over.wait()

    async def read(household: str, out: str) -> None:
        HOUSEHOLD.set(Household(household))
        await parsing.parse(source, "a.txt", tmp_path / out, stay if household == "bob" else None)

    slow = [asyncio.create_task(read("bob", f"out-{n}")) for n in range(5)]
    await begun.wait()
    await asyncio.create_task(read("anna", "out"))
    over.set()
    await asyncio.gather(*slow)
    await parsing.close()


async def test_the_largest_text_taken_is_within_the_limits(tmp_path: Path) -> None:
    """On one line, which takes the most memory, with letters that make each take four bytes."""
    source = tmp_path / "in"
    sentence = "All the words of it — and \U0001f409 " * 9 + "end. "
    source.write_text(sentence * 152_000, "utf-8")
    assert (await parse(source, "a.txt", tmp_path / "out"))[0] is FileKind.TEXT


async def test_one_worker_reads_file_after_file_whatever_becomes_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    parsing = Parsing()
    source.write_bytes(b"One.")
    await parsing.parse(source, "a.txt", out)
    (worker,) = parsing._idle
    source.write_bytes(b"many words and more " * 10**6)
    with monkeypatch.context() as limited:
        limited.setattr(parsing_module, "_MEMORY_BYTES", 100 << 20)
        with pytest.raises(DocumentError, match="time or memory"):
            await parsing.parse(source, "a.txt", out)
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]
    monkeypatch.setattr(parsing_module, "_IDLE_S", 0.0)
    source.write_bytes(b"Two.")
    await parsing.parse(source, "a.txt", out)
    assert out.read_bytes() == b"Two."
    await worker._process.wait()  # it does not stay when nothing comes
    assert not worker.usable
    started: list[parsing_module._Worker] = []
    start = parsing_module._Worker.start

    async def noted() -> parsing_module._Worker:
        started.append(await start())
        return started[-1]

    monkeypatch.setattr(parsing_module._Worker, "start", noted)
    await parsing.parse(source, "a.txt", out)
    await parsing.close()
    assert [each._process.returncode is None for each in started] == [False]
