"""Reads ZIP archives, bounding what is unpacked."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from typing import Any

from app.documents.readers.common import ENCRYPTED, NESTED, UnreadableError, damaged, unreadable
from dragon.localizable import localizable

DOCX_TEXT = "word/document.xml"
XLSX_BOOK = "xl/workbook.xml"
PPTX_SLIDES = "ppt/presentation.xml"

RELATIONS = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
"""The namespace of attributes that refer from one part of an Open XML file to another."""

EXPANDED_BYTES = 200 << 20
_MOST_ENTRIES = 10_000


# Namespaces of strict Open XML, and the usual ones for the same.
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)")
_USUAL = rb"http://schemas.openxmlformats.org/\1/2006/\2"

_ZIP = localizable("file.kind.packed", "ZIP or Office")


class Archive:
    """The entries of a ZIP file by name. Raises UnreadableError for damaged or encrypted ones."""

    def __init__(self, data: bytes, kind: str = "") -> None:
        self._damaged = damaged(kind or _ZIP)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError):
            raise UnreadableError(self._damaged) from None
        entries = self._zip.infolist()
        # zipfile never unpacks more than the declared size.
        expanded = sum(entry.file_size for entry in entries)
        if expanded > EXPANDED_BYTES or len(entries) > _MOST_ENTRIES:
            raise unreadable(
                "file.unpacks",
                "The file unpacks to more than {size} MB or {parts} parts. Split it into "
                "smaller ones.",
                size=EXPANDED_BYTES >> 20,
                parts=_MOST_ENTRIES,
            )
        self.names = frozenset(self._zip.namelist())

    def read(self, name: str) -> bytes:
        """The bytes of an entry."""
        try:
            return self._zip.read(name)
        except (KeyError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
            raise UnreadableError(self._damaged) from None
        except RuntimeError:  # NotImplementedError, of an unknown compression, is one
            raise UnreadableError(ENCRYPTED) from None

    def xml(self, name: str) -> Any:
        """The root of an entry that is XML. Entities are left alone, and nothing is fetched."""
        from lxml import etree  # the service, which only needs the kinds, does without

        parser = etree.XMLParser(
            resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True
        )
        try:
            return etree.fromstring(_STRICT.sub(_USUAL, self.read(name)), parser)
        except etree.XMLSyntaxError as error:
            deep = "depth" in str(error).lower()
            raise UnreadableError(NESTED if deep else self._damaged) from None

    def related(self, part: str) -> dict[str, str]:
        """The names of the parts that a part of an Open XML file refers to, by id and by type."""
        folder, name = posixpath.split(part)
        relations = f"{folder}/_rels/{name}.rels"
        found: dict[str, str] = {}
        for each in self.xml(relations) if relations in self.names else ():
            target = posixpath.normpath(posixpath.join("/", folder, each.get("Target", "")))[1:]
            found[each.get("Id", "")] = found[posixpath.basename(each.get("Type", ""))] = target
        return found
