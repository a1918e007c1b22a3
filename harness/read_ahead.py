"""What services read once and keep, whatever their settings: read before they are forked."""

from __future__ import annotations

from app.generation import exchanges
from dragon.retrieval import lexical, names, whose

exchanges.read()
lexical._dictionary()
names._months()
names._amounts()
whose._fitted()
