"""Office files to upload, as libraries for their formats write them."""

from __future__ import annotations

import io
from collections.abc import Sequence

from odfdo import Document, DrawPage, Frame, Header, List, ListItem, Note, Paragraph, Table
from pptx import Presentation
from pptx.util import Inches

Rows = Sequence[tuple[str, ...]]


def pptx(*, title: str, items: Sequence[str], notes: str, rows: Rows) -> bytes:
    """Three slides: a list with notes, a table with a box and a group beside it, nothing."""
    deck = Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[1])
    first.shapes.title.text = title
    body = first.placeholders[1].text_frame
    body.text = items[0]
    for item in items[1:]:
        deeper = body.add_paragraph()
        deeper.text, deeper.level = item, 1
    first.notes_slide.notes_text_frame.text = notes

    second = deck.slides.add_slide(deck.slide_layouts[5])
    box = second.shapes.add_textbox(0, 0, Inches(1), Inches(1))
    box.text_frame.text = "In a box."
    grouped = second.shapes.add_group_shape().shapes.add_textbox(0, 0, Inches(1), Inches(1))
    grouped.text_frame.text = "In a group."
    table = second.shapes.add_table(len(rows), len(rows[0]), 0, 0, Inches(4), Inches(2)).table
    for number, row in enumerate(rows):
        for column, cell in enumerate(row):
            table.cell(number, column).text = cell
    second.shapes.title.text = "A table"

    deck.slides.add_slide(deck.slide_layouts[6])
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue()


def odt(*, heading: str, text: str, note: str, items: Sequence[str], rows: Rows) -> bytes:
    """A heading, a paragraph with a footnote, a list within a list, a table, a comment."""
    document = Document("text")
    document.body.clear()
    document.body.append(Header(2, heading))
    paragraph = Paragraph(text)
    paragraph.append(Note(note_id="n1", citation="1", body=note))
    paragraph.insert_annotation(position=0, body="A comment.", creator="Anna")
    document.body.append(paragraph)
    listed = List(list(items[:-1]))
    listed.append(ListItem(List([items[-1]])))
    document.body.append(listed)
    document.body.append(_table("Table", rows))
    return _saved(document)


def ods(sheets: dict[str, Rows]) -> bytes:
    """A workbook."""
    document = Document("spreadsheet")
    document.body.clear()
    for name, rows in sheets.items():
        document.body.append(_table(name, rows))
    return _saved(document)


def odp(*, title: str, items: Sequence[str], notes: str) -> bytes:
    """Two slides: a list under a title, with notes; nothing."""
    document = Document("presentation")
    document.body.clear()
    slide = DrawPage("page1", name="page1")
    outline = Frame.text_frame([], presentation_class="outline")
    outline.get_element("draw:text-box").append(List(list(items)))
    slide.append(outline)
    slide.append(Frame.text_frame([title], presentation_class="title"))
    said = Frame.text_frame([notes], presentation_class="notes")
    slide.append(said.from_tag("<presentation:notes/>"))
    slide.get_element("presentation:notes").append(said)
    document.body.append(slide)
    document.body.append(DrawPage("page2", name="page2"))
    return _saved(document)


def _table(name: str, rows: Rows) -> Table:
    table = Table(name)
    table.set_values([list(row) for row in rows])
    return table


def _saved(document: Document) -> bytes:
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()
