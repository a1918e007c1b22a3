"""Simple PDFs, made on the spot."""

from __future__ import annotations

LINE_HEIGHT = 14


def pdf(*pages: str, encrypted: bool = False) -> bytes:
    """A PDF with the lines of each page in Helvetica; a page without text is blank."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {count} /Kids [{kids}] >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, page in enumerate(pages):
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R >>"
        )
        lines = "".join(f"({_escaped(line)}) Tj T* " for line in page.splitlines())
        content = f"BT /F1 11 Tf {LINE_HEIGHT} TL 50 780 Td {lines}ET"
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    if encrypted:
        # The entries match no known password, not even the empty one.
        entry = "5A" * 32
        objects.append(f"<< /Filter /Standard /V 1 /R 2 /P -4 /O <{entry}> /U <{entry}> >>")
    body = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, each in enumerate(objects, start=1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{each}\nendobj\n".encode("latin-1")
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    extra = f"/Encrypt {len(objects)} 0 R /ID [<{'00' * 16}> <{'00' * 16}>]" if encrypted else ""
    size = len(objects) + 1
    trailer = (
        f"xref\n0 {size}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {size} /Root 1 0 R {extra} >>\nstartxref\n{len(body)}\n%%EOF\n"
    )
    return bytes(body) + trailer.encode("latin-1")


def _escaped(line: str) -> str:
    return line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
