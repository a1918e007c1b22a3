"""What services read once and keep, whatever their settings: read before they are forked."""

from __future__ import annotations

from app.generation import exchanges
from dragon.retrieval import judge, lexical, names

exchanges.read()
judge._fitted()
lexical._dictionary()
names._months()
names._amounts()
