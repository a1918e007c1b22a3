"""Numbers of spreadsheets are read as a person sees them."""

from __future__ import annotations

from pathlib import Path

import openpyxl
import pytest

from app.documents.readers.read import read


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        (0.075, "0.0%", "7.5%"),
        (7.5, '0.0"%"', "7.5%"),
        (7.5, "0.0\\%", "7.5%"),
        (1234.5, '"$"#,##0.00', "$1,234.50"),
        (1234.5, "[$€-407] #,##0.00", "€ 1,234.50"),
        (1234.5, "[$-407]#,##0.00", "1,234.50"),
        (-3.5, "#,##0.0;(#,##0.0)", "(3.5)"),
        (5.5, '0.0 "men; all"', "5.5 men; all"),
    ],
)
def test_a_number_has_its_format(tmp_path: Path, value: float, code: str, shown: str) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["Rate"])
    sheet.append([value])
    sheet["A2"].number_format = code
    book.save(tmp_path / "rates.xlsx")
    text = "\f".join(read((tmp_path / "rates.xlsx").read_bytes(), "rates.xlsx")[1].pages)
    assert shown in text
