"""Reads ZIP archives, bounding what is unpacked."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import Any

from app.documents.readers.common import DAMAGED, UnreadableError

DOCX_TEXT = "word/document.xml"
XLSX_BOOK = "xl/workbook.xml"
EPUB_TYPE = b"application/epub+zip"

EXPANDED_BYTES = 200 << 20
_MOST_ENTRIES = 10_000


class Archive:
    """The entries of a ZIP file by name. Raises UnreadableError for damaged or encrypted ones."""

    def __init__(self, data: bytes, what: str = "ZIP or Office file") -> None:
        self._damaged = DAMAGED.format(what=what)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError):
            raise UnreadableError(self._damaged) from None
        entries = self._zip.infolist()
        # zipfile never unpacks more than the declared size.
        expanded = sum(entry.file_size for entry in entries)
        if expanded > EXPANDED_BYTES or len(entries) > _MOST_ENTRIES:
            raise UnreadableError(
                f"The file unpacks to more than {EXPANDED_BYTES >> 20} MB or {_MOST_ENTRIES} "
                "parts. Split it into smaller ones."
            )
        self.names = frozenset(self._zip.namelist())

    def read(self, name: str) -> bytes:
        """The bytes of an entry."""
        try:
            return self._zip.read(name)
        except KeyError:
            raise UnreadableError(self._damaged) from None
        except RuntimeError:
            raise UnreadableError("The file is encrypted. Save it without a password.") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
            raise UnreadableError(self._damaged) from None

    def xml(self, name: str) -> Any:
        """The root of an entry that is XML. Entities are left alone, and nothing is fetched."""
        from lxml import etree  # the service, which only needs the kinds, does without

        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
        try:
            return etree.fromstring(self.read(name), parser)
        except etree.XMLSyntaxError:
            raise UnreadableError(
                f"The file is damaged, or nested too deeply: {name} cannot be read."
            ) from None
