"""What services read once and keep, whatever their settings: read before they are forked."""

from __future__ import annotations

from app.generation import everyday
from dragon.retrieval import judge, lexical, names

everyday.read()
judge._fitted()
lexical._dictionary()
names._months()
names._amounts()
