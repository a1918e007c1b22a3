"""The words in which a question asks of a table what it computes, and those that ask nothing."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from enum import StrEnum

from dragon.retrieval.lexical import words


class Operation(StrEnum):
    """The operation on the rows that meet the conditions."""

    CELLS = "cells"
    ROWS = "rows"
    COUNT = "count"
    SUM = "sum"
    MEAN = "mean"
    MOST = "most"
    LEAST = "least"


_MOST = {
    "most", "highest", "largest", "biggest", "greatest", "maximum", "max", "longest", "top",
    "heaviest", "tallest", "expensive", "dearest", "latest", "newest",
}  # fmt: skip
_LEAST = {
    "least", "lowest", "smallest", "fewest", "minimum", "min", "shortest", "lightest", "cheapest",
    "earliest", "oldest",
}  # fmt: skip
COMPUTED = {
    Operation.MEAN: {"average", "mean"},
    Operation.SUM: {"total", "sum", "altogether"},
    Operation.LEAST: _LEAST,
    Operation.MOST: _MOST,
}
SUMMED = COMPUTED[Operation.SUM] | COMPUTED[Operation.MEAN]
LIMITS = {"min", "max", "minimum", "maximum"}
QUANTITY = {"most", "least", "fewest"}
MOST_OF = re.compile(rf"\b(?:{'|'.join(sorted(QUANTITY))})\s+(\w+)", re.IGNORECASE)
OPERATION_WORDS = frozenset[str]().union(*COMPUTED.values())
NO_FIGURE = re.compile(
    r"\A\W*(?:and |but )?(?:who(?:m|se)?|where|how (?:did|do|does|can|was|were|is|are))\b",
    re.IGNORECASE,
)
HOW_MUCH = re.compile(r"\bhow much\b", re.IGNORECASE)
COUNTS = re.compile(r"\bhow many\b|\b(?:number|count) of (?:the )?\w+s\b", re.IGNORECASE)
# Words that no query here expresses.
BEYOND = re.compile(
    r"\b(?:not|no|non|never|neither|without|except|excluding|than|per|second|third)\b|n['’]t\b",
    re.IGNORECASE,
)
PRICED = {
    "cost", "price", "pay", "paid", "spend", "spent", "expense", "expensive", "cheapest", "dearest",
    "costs", "expenses", "worth",
}  # fmt: skip
PAYING = {"spend", "spent", "pay", "paid"}
# It asks for the sum of what was paid, and not for what may or will be, what each one paid, who was
# paid, or how.
SPENDING = re.compile(
    r"\bhow much\b|\bwhat (?:did|do|does|have|has|had)\b.*\b(?:spend|spent|pay|paid)\b"
    r"(?! (?:with|by)\b)",
    re.IGNORECASE,
)
UNSURE = re.compile(
    r"\b(?:can|could|will|would|shall|should|might|must|each|every|single"
    r"|(?:is|are|was|were|be|been|being|get|gets|got) paid)\b",
    re.IGNORECASE,
)
PAID_TO = re.compile(r"\b(?:pay|pays|paid)\s+(\w+)", re.IGNORECASE)
PAYERS = {"paid", "payer", "by", "who", "person", "buyer", "spent"}
SPENT = {"spend", "spent", "spending", "expense", "expenses", "paid"}
MONEY = {
    "price", "cost", "fee", "amount", "rent", "value", "eur", "usd", "gbp", "chf", "euro", "dollar",
}  # fmt: skip
# An amount of money that went, where nothing says that it is the price of one piece.
AMOUNTS = {
    "amount", "cost", "costs", "expense", "expenses", "spent", "paid", "fee", "rent", "bill",
}  # fmt: skip
A_RATE = re.compile(r"\b(?:unit|per|each|rate)\b|\w\)?/\s?\w{1,5}\b|[€£$]/", re.IGNORECASE)
APIECE = {"unit", "price", "per", "each", "rate"}
DATED = {"latest", "newest", "earliest", "oldest"}
WHEN = {"date", "day", "month", "year", "when", "on", "datum", "tag", "fecha", "start", "time"}
UNITS = {"eur", "usd", "gbp", "chf", "kg", "km", "cm", "mm", "days", "hours", "minutes", "id"}
# Words that say nothing beyond the question itself.
PLAIN = {
    "list", "show", "name", "give", "tell", "find", "compare", "comes", "come", "came", "value",
    "number", "count", "got", "get", "each", "one", "ones", "s", "please", "pls", "versus",
    "difference", "between", "there", "altogether", "live", "lives", "called", "named",
    "bought", "sold", "used", "single", "overall", "make", "made", "place", "thing", "piece",
    "kind", "item", "items", "anyone", "anybody",
}  # fmt: skip
ROWS = {"row", "rows", "entry", "entries", "table", "sheet", "record", "records"}
KIND = re.compile(r"\b(?:which|what|how many)\s+(?:kind of\s+|of the\s+)?(\w+)", re.IGNORECASE)
# What a row is said to be: "which bike", "how many bikes", "the most expensive bike".
ROW = re.compile(
    rf"\b(?:which|how many(?: of the)?|(?:most )?(?:{'|'.join(sorted(_MOST | _LEAST))}))\s+(\w+)",
    re.IGNORECASE,
)
RELATIONS = {
    "more than": ">", "over": ">", "above": ">", "at least": ">=",
    "less than": "<", "fewer than": "<", "under": "<", "below": "<", "at most": "<=",
}  # fmt: skip
COMPARED = re.compile(rf"\b(?:{'|'.join(RELATIONS)})\s", re.IGNORECASE)
AMOUNT = re.compile(rf"\b({'|'.join(RELATIONS)})\s+([€£$]?\s?\d[\d,]*(?:\.\d+)?)", re.IGNORECASE)
LISTED = re.compile(
    r"\A\W*(?:which|what|who|list|show|name|compare|(?:is|are) there)\b", re.IGNORECASE
)
# Questions that the page offers about a cell, in its languages: `suggest.cell` of its texts.
CELL = tuple(
    re.compile(asked + r"\s?\??", re.IGNORECASE)
    for asked in (
        "what(?: is|['’]s) the (?P<column>.{1,200}?) of (?P<row>.{1,200}?)",
        'was steht bei (?P<row>.{1,200}) unter ["„“»](?P<column>.{1,200}?)["“”«]',
        '¿?qu[ée] pone en ["“«](?P<column>.{1,200}?)["”»] de (?P<row>.{1,200}?)',
    )
)


def operation_of(text: str | AbstractSet[str]) -> Operation:
    """What a text, or its words, asks to compute from several rows; `CELLS` if nothing."""
    said = set(words(text)) if isinstance(text, str) else text
    return next((each for each, marks in COMPUTED.items() if marks & said), Operation.CELLS)
