"""EPUB: the chapters in reading order."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote

from app.documents.readers.archive import Archive
from app.documents.readers.common import NO_TEXT, UnreadableError, one_line
from app.documents.readers.markup import html_text
from dragon.localizable import Localizable, localizable

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_PAGES = {"application/xhtml+xml", "text/html"}


def epub_chapters(archive: Archive) -> tuple[list[str], Localizable | None]:
    """The text of each chapter that has any, title and author first; a note of those missing."""
    (rootfile,) = archive.xml(_CONTAINER).xpath("(//*[local-name()='rootfile']/@full-path)[1]") or [
        ""
    ]
    package = archive.xml(rootfile)
    base = posixpath.dirname(rootfile)
    items = {
        item.get("id"): posixpath.normpath(posixpath.join(base, unquote(item.get("href", ""))))
        for item in package.xpath("//*[local-name()='item']")
        if item.get("media-type") in _PAGES
    }
    order = [each.get("idref") for each in package.xpath("//*[local-name()='itemref']")]
    names = [items[each] for each in order if each in items]
    if _locked(archive) & set(names):
        raise UnreadableError(
            localizable("file.drm", "The book is encrypted (DRM) and cannot be read.")
        )
    names = list(dict.fromkeys(names))
    missing = [name for name in names if name not in archive.names]
    chapters = [html_text(archive.read(name)) for name in names if name in archive.names]
    chapters = [chapter for chapter in chapters if chapter.strip()]
    if not chapters:
        raise UnreadableError(NO_TEXT)
    title, author = (
        one_line(", ".join(package.xpath(f"//*[local-name()='{each}']/text()")))
        for each in ("title", "creator")
    )
    if title:
        chapters[0] = f"{title}{f', by {author}' if author else ''}.\n\n{chapters[0]}"
    return chapters, _lacking(len(missing), len(names)) if missing else None


def _lacking(missing: int, count: int) -> Localizable:
    return localizable(
        "file.note.chapters",
        "{missing} of {count} chapters are missing in the file.",
        missing=missing,
        count=count,
    )


def _locked(archive: Archive) -> set[str]:
    """Names of encrypted entries; a book without DRM may still encrypt its fonts."""
    if _ENCRYPTION not in archive.names:
        return set()
    uris = archive.xml(_ENCRYPTION).xpath("//*[local-name()='CipherReference']/@URI")
    return {unquote(uri) for uri in uris}
