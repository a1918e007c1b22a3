"""Which files of a folder are left out: rules as in `.gitignore`, by the `pathspec` library.

The nearest rule to an entry decides: those of its own directory before those above it, and the
usual ones last. What is in a directory that is left out is not looked at.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from pathspec import GitIgnoreSpec

RULES = (".gitignore", ".dragonignore")
"""Files of rules, in any directory; those of the latter go first."""

_LONGEST = 64 * 1024  # bytes of rules that are read of a file

# Hidden files, what programs install or have half written, what file browsers leave.
_USUAL = (
    ".*", "node_modules/", "__pycache__/", "*~", "~$*", "[#]*[#]",
    "*.sw[a-p]", "*.tmp", "*.part", "*.partial", "*.crdownload", "Thumbs.db", "desktop.ini",
)  # fmt: skip


@dataclass(frozen=True)
class Ignored:
    """The rules that hold in a directory, the outermost first, each with where they stand."""

    rules: tuple[tuple[str, GitIgnoreSpec], ...]

    def __call__(self, path: str) -> bool:
        """Whether an entry of the folder is left out; a directory's path ends in /."""
        for directory, spec in reversed(self.rules):
            decided = spec.check_file(path.removeprefix(directory)).include
            if decided is not None:
                return decided
        return False

    def within(self, directory: int, relative: str) -> Ignored:
        """With the rules of an open directory; `relative` to the folder, "" or ending in /."""
        lines = [line for name in RULES for line in _lines(directory, name)]
        return Ignored((*self.rules, (relative, _spec(lines)))) if lines else self

    def but_usual(self) -> Ignored:
        """The rules without the usual ones."""
        return Ignored(tuple(each for each in self.rules if each not in USUAL.rules))


def _lines(directory: int, name: str) -> list[str]:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    except OSError:  # usually there is none
        return []
    with open(descriptor, "rb") as file:
        rules = file.read(_LONGEST) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    return rules.decode("utf-8", "replace").splitlines()


def _spec(lines: list[str]) -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines(filter(_is_pattern, lines))


def _is_pattern(line: str) -> bool:
    """Whether a line can be read; git, too, goes on without one that cannot."""
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


USUAL = Ignored((("", _spec(list(_USUAL))),))
"""What holds everywhere, unless a folder's own rules say otherwise."""
