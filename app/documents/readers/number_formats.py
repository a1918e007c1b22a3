"""Numbers of an XLSX file as its formats show them: 7.5 % rather than 0.075."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import ROUND_HALF_UP, Decimal

from app.documents.readers.archive import RELATIONS, XLSX_BOOK, Archive

_STYLES = "xl/styles.xml"
# Those that have a number and no code in the file, ECMA-376 part 1, 18.8.30.
_BUILT_IN = {
    "2": "0.00", "3": "#,##0", "4": "#,##0.00", "9": "0%", "10": "0.00%",
    "37": "#,##0;(#,##0)", "38": "#,##0;(#,##0)", "39": "#,##0.00;(#,##0.00)",
    "40": "#,##0.00;(#,##0.00)", "44": '"$"#,##0.00',
}  # fmt: skip
_SECTION = re.compile(r'(?:"[^"]*"|\\.|[^;"\\])+')
_CURRENCY = re.compile(r"\[\$([^\]-]*)[^\]]*\]")
_UNSEEN = re.compile(r"\[[^\]]*\]|[_*].")
_LITERAL = re.compile(r'"([^"]*)"|\\(.)')
_DIGITS = re.compile(r"[#0?][#0?,]*(?:\.([#0?]+))?")
_UNRESULTED = re.compile(
    rb"</(?:\w+:)?f>\s*(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v></(?:\w+:)?v>)?\s*</(?:\w+:)?c>"
)

Formats = Mapping[tuple[int, int], str]


def formats_of(archive: Archive) -> Iterator[Formats]:
    """For each sheet, in order, the codes of the cells whose format says more than a number."""
    codes = _codes(archive) if _STYLES in archive.names else {}
    for name in _sheets(archive):
        yield _cells(archive.read(name), codes) if codes and name in archive.names else {}


def unresulted(archive: Archive) -> int:
    """How many formulas have no result: the program that wrote them has not computed them."""
    sheets = (name for name in _sheets(archive) if name in archive.names)
    return sum(len(_UNRESULTED.findall(archive.read(name))) for name in sheets)


def shown(value: float, code: str) -> str:
    """A number as a format shows it, with . for decimals; "" where the format is no such one."""
    sections = _SECTION.findall(code)
    section = sections[1] if value < 0 and len(sections) > 1 else sections[0] if sections else ""
    signed = value < 0 and len(sections) < 2
    section = _UNSEEN.sub("", _CURRENCY.sub(lambda found: f'"{found[1]}"', section))
    if (digits := _DIGITS.search(section)) is None:
        return ""
    before, behind = section[: digits.start()], section[digits.end() :]
    exact = abs(Decimal(repr(value))) * (100 if "%" in _LITERAL.sub("", section) else 1)
    decimals = digits[1] or ""
    exact = exact.quantize(Decimal(1).scaleb(-len(decimals)), ROUND_HALF_UP)
    text = f"{exact:{',' if ',' in digits[0] else ''}f}"
    for optional in reversed(decimals):
        if optional == "0" or not text.endswith("0"):
            break
        text = text[:-1]
    before, behind = (
        _LITERAL.sub(lambda found: found[1] or found[2] or "", each) for each in (before, behind)
    )
    if set(before + behind) & set("@/") or re.search(r"[A-Za-z][+-]", behind):
        return ""
    return f"{'-' if signed else ''}{before}{text.removesuffix('.')}{behind}".strip()


def _codes(archive: Archive) -> dict[str, str]:
    """The codes of percentages, currencies and thousands, by the style of a cell."""
    root = archive.xml(_STYLES)
    own = {each.get("numFmtId"): each.get("formatCode", "") for each in root.iter("{*}numFmt")}
    found = {}
    for n, style in enumerate(root.iterfind("{*}cellXfs/{*}xf")):
        code = own.get(style.get("numFmtId"), _BUILT_IN.get(style.get("numFmtId"), ""))
        if re.search(r"[#0]", code) and not re.search(
            r"[dyhs]", _UNSEEN.sub("", _LITERAL.sub("", code))
        ):
            found[str(n)] = code
    return found


def _sheets(archive: Archive) -> list[str]:
    """The parts of the sheets, in order."""
    targets = archive.related(XLSX_BOOK)
    return [
        targets.get(each.get(f"{RELATIONS}id"), "")
        for each in archive.xml(XLSX_BOOK).iter("{*}sheet")
    ]


def _cells(sheet: bytes, codes: Mapping[str, str]) -> Formats:
    found = {}
    styled = re.compile(rb'<(?:\w+:)?c (?=[^>]*\br="([A-Z]{1,3})(\d{1,7})")[^>]*\bs="(\d+)"')
    for column, row, style in styled.findall(sheet):
        if code := codes.get(style.decode()):
            number = 0
            for letter in column:
                number = number * 26 + letter - 64
            found[int(row) - 1, number - 1] = code
    return found
