"""Slides, OpenDocument and RTF: their structure as text, and files that mean harm.

Covers `app.documents.readers.office`.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from app.documents.readers.sniff import FileKind
from tests.documents import archive, docx, epub, paragraph, refused, text_of
from tests.office import odp, ods, odt, pptx

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("shared_parsing")]

ROWS = [("Guest", "Room"), ("Anna", "4"), ("Bob", "7")]
SLIDES = pptx(title="The hut", items=["axe", "lamp"], notes="Said slowly.", rows=ROWS)
TEXT = odt(
    heading="Keys",
    text="The key hangs left of the door.",
    note="Since 1911.",
    items=["axe", "lamp", "wick"],
    rows=ROWS,
)


def changed(content: bytes, entry: str, old: str, new: str) -> bytes:
    """The archive with text in one of its entries replaced."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        entries: dict[str, bytes | str] = {name: file.read(name) for name in file.namelist()}
    before = bytes(entries[entry])  # type: ignore[arg-type]
    assert old.encode() in before
    return archive({**entries, entry: before.replace(old.encode(), new.encode())})


async def test_pptx(tmp_path: Path) -> None:
    kind, text = await text_of(tmp_path, "a.bin", SLIDES)
    assert kind is FileKind.PPTX
    assert text.split("\f") == [
        "# The hut\n\n- axe\n- lamp\n\nNotes: Said slowly.",
        "# A table\n\nIn a box.\n\nIn a group.\n\nGuest: Anna; Room: 4\nGuest: Bob; Room: 7",
        "",
    ]


async def test_odt(tmp_path: Path) -> None:
    kind, text = await text_of(tmp_path, "a.bin", TEXT)
    assert kind is FileKind.ODT
    assert text.split("\n\n") == [
        "## Keys",
        "The key hangs left of the door.",
        "Since 1911.",
        "- axe\n- lamp\n- wick",
        "Guest: Anna; Room: 4\nGuest: Bob; Room: 7",
    ]


async def test_ods(tmp_path: Path) -> None:
    content = ods({"Guests": ROWS, "More": [("name", "hours"), ("Ann", "40")]})
    kind, text = await text_of(tmp_path, "a.bin", content)
    assert kind is FileKind.ODS
    assert text.split("\n\n") == [
        *("# Guests", "Guest: Anna; Room: 4\nGuest: Bob; Room: 7"),
        *("# More", "name: Ann; hours: 40"),
    ]


async def test_an_ods_has_the_grid_that_a_person_sees_and_exact_values(tmp_path: Path) -> None:
    spanned = ' table:number-columns-spanned="2"><text:p>Spring</text:p></table:table-cell>'
    covered = "<table:covered-table-cell/>"
    typed = ' office:value-type="{}" office:{}="{}"{}><text:p>{}</text:p></table:table-cell>'
    fee = typed.format("currency", "value", "2300", ' office:currency="EUR"', "2.300 €")
    share = typed.format("percentage", "value", "0.075", "", "7,5 %")
    day = typed.format("date", "date-value", "2026-05-03", "", "03.05.26")
    note = "><office:annotation><text:p>Ask.</text:p></office:annotation></table:table-cell>"
    rows = [
        f'{CELL} table:number-rows-spanned="2"><text:p>Boat</text:p></table:table-cell>'
        f"{CELL}{spanned}{covered}{CELL}><text:p>Due</text:p></table:table-cell>",
        f"{covered}{CELL}><text:p>Fee</text:p></table:table-cell>"
        f"{CELL}><text:p>Share</text:p></table:table-cell>{CELL}/>",
        f"{CELL}><text:p>Heron</text:p></table:table-cell>{CELL}{fee}{CELL}{share}{CELL}{day}",
        f"{CELL}><text:p>Plover</text:p></table:table-cell>{CELL}{note}",
    ]
    made = "".join(f"{ROW}>{row}</table:table-row>" for row in rows)
    _, text = await text_of(tmp_path, "a.bin", changed(SHEET, "content.xml", ROW, f"{made}{ROW}"))
    assert "Boat: Heron; Spring Fee: 2300 EUR; Spring Share: 7.5%; Due: 2026-05-03" in text
    assert "Boat: Plover\n" in text


@pytest.mark.parametrize(
    ("said", "shown", "read"),
    [
        ('"boolean" office:boolean-value="true"', "WAHR", "yes"),
        ('"boolean" office:boolean-value="false"', "", "no"),
        ('"percentage" office:value="0.07"', "7 %", "7%"),
        ('"percentage" office:value="0.29"', "29 %", "29%"),
        ('"float"', "4,5", "4,5"),
        ('"currency" office:value=""', "4 €", "4 €"),
        ('"date"', "03.05.26", "03.05.26"),
    ],
)
async def test_a_value_of_an_ods_is_read_or_else_what_is_shown(
    tmp_path: Path, said: str, shown: str, read: str
) -> None:
    head = "".join(f"{CELL}><text:p>{each}</text:p></table:table-cell>" for each in ("Who", "What"))
    text = f"<text:p>{shown}</text:p>" if shown else ""
    cell = f"{CELL} office:value-type={said}>{text}</table:table-cell>"
    name = f"{CELL}><text:p>Ann</text:p></table:table-cell>"
    made = "".join(f"{ROW}>{row}</table:table-row>" for row in (head, name + cell))
    _, text = await text_of(tmp_path, "a.bin", changed(SHEET, "content.xml", ROW, f"{made}{ROW}"))
    assert f"Who: Ann; What: {read}\n" in text


async def test_odp(tmp_path: Path) -> None:
    kind, text = await text_of(
        tmp_path, "a.bin", odp(title="The hut", items=["axe", "lamp"], notes="Said slowly.")
    )
    assert kind is FileKind.ODP
    assert text.split("\f") == ["# The hut\n\n- axe\n- lamp\n\nNotes: Said slowly.", ""]


# As Word writes it: styles, a picture, a list by its marks, a row's definition before and after it.
RTF = (
    rb"""{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fcharset0 Times;}{\f3\fcharset2 Symbol;}}
{\stylesheet{\snext0 Normal;}{\s1\outlinelevel0 heading 1;}{\s2\outlinelevel1 heading 2;}}
{\*\generator Somebody;}{\info{\author Anna}}{\header \pard\plain Above\par}
\pard\plain \s1\outlinelevel0 {\rtlch\fcs1 \ltrch\fcs0 The hut}\par
\pard\plain The key hangs left of the d\'f6\'f6r \u8212\'97 always, \{so\}.\par
\pard\plain \s2\outlinelevel1 {Tools}\par
{\listtext\pard\plain\f3 \'b7\tab}\pard\plain axe\par
{\listtext\pard\plain \u8226\'95\tab}\pard\plain lamp\par
\trowd\cellx2000\cellx4000\pard\intbl {Guest\cell Room\cell}\pard\intbl {\trowd\cellx2000\row}
\trowd\cellx2000\cellx4000\pard\intbl {Anna\cell 4\cell}\pard\intbl {\trowd\cellx2000\row}
\pard\plain{\pict\pngblip """
    + b"89504e47" * 5000
    + rb"""}Below.\par}"""
)


async def test_rtf(tmp_path: Path) -> None:
    kind, text = await text_of(tmp_path, "a.bin", RTF)
    assert kind is FileKind.RTF
    assert [line for line in text.splitlines() if line] == [
        "# The hut",
        "The key hangs left of the döör — always, {so}.",
        "## Tools",
        *("- axe", "- lamp"),
        "Guest: Anna; Room: 4",
        "Below.",
    ]


ENTITIES = "<!DOCTYPE a [<!ENTITY out SYSTEM 'file:///etc/hostname'>]>"
ODT_TYPE = "application/vnd.oasis.opendocument.text"

ROW, CELL = "<table:table-row", "<table:table-cell"
MANY = '="999999999"'
SHEET = ods({"A": [("x", "y")]})
LONG_SHEET = changed(SHEET, "content.xml", ROW, f"{ROW} table:number-rows-repeated{MANY}")
BLANK = (
    f"{ROW} table:number-rows-repeated{MANY}>"
    f"{CELL} table:number-columns-repeated{MANY}/></table:table-row>"
)


async def test_rows_that_are_blank_may_be_many(tmp_path: Path) -> None:
    kept = changed(SHEET, "content.xml", "<table:table ", f"<table:table >{BLANK}")
    _, text = await text_of(tmp_path, "a.bin", kept)
    assert text.endswith("x; y")


async def test_an_entity_brings_in_no_file(tmp_path: Path) -> None:
    entry = "ppt/slides/slide1.xml"
    declared = changed(SLIDES, entry, "axe", "axe &out;")
    with zipfile.ZipFile(io.BytesIO(declared)) as file:
        head = file.read(entry).decode().split("?>")[0] + "?>"
    _, text = await text_of(tmp_path, "a.bin", changed(declared, entry, head, head + ENTITIES))
    assert "axe" in text
    assert Path("/etc/hostname").read_text().strip() not in text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        # Cut off, or of other parts than they should have.
        ("a.pptx", SLIDES[:-60], "This .pptx file is damaged. Open it elsewhere and save it"),
        ("a.docx", docx(paragraph("Text."))[:-60], "This .docx file is damaged. Open"),
        ("a.docx", archive({"word/document.xml": "<w:document"}), "This .docx file is damaged. O"),
        ("a.docx", changed(docx(""), "word/document.xml", "<w:body", "<w:"), "This .docx file is"),
        ("a", archive({"xl/workbook.xml": "x"}), "This .xlsx file is damaged."),
        ("a", archive({"mimetype": "application/epub+zip"}), "This .epub file is damaged."),
        ("a", epub("<p>One.</p>").replace(b"OEBPS/book.opf", b"OEBPS/look.opf"), "This .epub file"),
        ("a", archive({"ppt/presentation.xml": "<a"}), "This .pptx file is damaged."),
        (
            "a",
            changed(SLIDES, "ppt/_rels/presentation.xml.rels", "slides/slide1", "slides/slide9"),
            "This .pptx file is damaged.",
        ),
        ("a.odt", TEXT[:-60], "This .odt file is damaged."),
        ("a", archive({"mimetype": ODT_TYPE, "META-INF/manifest.xml": "<a/>"}), "This .odt file"),
        ("a", rb"{\rtf1 \uc\u9999999 }", "This .rtf file is damaged."),
        ("a.odp", bytes(100), "This .odp file is damaged."),
        # Encrypted.
        (
            "a.odt",
            changed(
                TEXT, "META-INF/manifest.xml", "</manifest:", "<manifest:encryption-data/></m:"
            ),
            "The file is encrypted. Save it without a password.",
        ),
        (
            "a.pptx",
            b"\xd0\xcf\x11\xe0" + "EncryptedPackage".encode("utf-16-le"),
            "The file is encrypted. Save it without a password.",
        ),
        # Empty.
        ("a", rb"{\rtf1}", "The file has no text in it."),
        ("a", odt(heading="", text="", note="", items=["", ""], rows=[("", "")]), "has no text"),
        # Those that mean harm.
        ("a", LONG_SHEET, "The file repeats rows more than 50000 times."),
        ("a", changed(LONG_SHEET, "content.xml", "999999999", "9" * 5000), "repeats rows"),
    ],
)
async def test_what_cannot_be_read(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    await refused(tmp_path, name, content, message)


async def test_blank_rows_below_a_sheet_are_as_people_have_them(tmp_path: Path) -> None:
    end = "</table:table>"
    _, text = await text_of(tmp_path, "a.bin", changed(SHEET, "content.xml", end, BLANK + end))
    assert text == "# A\n\nx; y"


async def test_a_hostile_row_is_as_wide_as_a_table_may_be(tmp_path: Path) -> None:
    wide = f"{CELL} table:number-columns-repeated{MANY}"
    _, text = await text_of(tmp_path, "a.bin", changed(TEXT, "content.xml", CELL, wide))
    assert len(text) < 100_000
