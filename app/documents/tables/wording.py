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


def _asks(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


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
EXTREME = _MOST | _LEAST
SUMMED = COMPUTED[Operation.SUM] | COMPUTED[Operation.MEAN]
LIMITS = {"min", "max", "minimum", "maximum"}
QUANTITY = {"most", "least", "fewest"}
MOST_OF = _asks(rf"\b(?:{'|'.join(sorted(QUANTITY))})\s+(\w+)")
OPERATION_WORDS = frozenset[str]().union(*COMPUTED.values())
NO_FIGURE = _asks(
    r"\A\W*(?:and |but )?(?:who(?:m|se)?|where|how (?:did|do|does|can|was|were|is|are))\b"
)
WHO = _asks(r"\bwho(?:m|se)?\b")
HOW_MUCH = _asks(r"\bhow much\b\W*(\w*)")
COUNTS = _asks(r"\bhow (?:many|often)\b|\bwie oft\b|\b(?:number|count) of (?:the )?\w+s\b")
OFTEN = _asks(r"\b(?:how often|how many times|wie oft)\b")
GOING = {"often", "times", "go", "went", "visit"}
# What each figure is of: "per category", "by shop", "did each of the customers".
EACH = _asks(r"\b(?:per|by|each|every|pro|par)(?: of the)?\s+(?=\w)")
AND_MORE = _asks(r" , \s{0,2}(?:(?:and|und|or|oder)\b|[&+/])")
# Alternatives: the words before and behind "or", unless something else than cells is there.
OR = _asks(r"(?:\b(\w+),? )?\b(?:or|oder|ou)\b(?: (?:(?:in|on|at|for|by|of|from|to|the) )*(\w+))?")
DATE_LETTERS = {"month": 7, "year": 4, "monat": 7, "jahr": 4, "mois": 7, "mes": 7}  # of 2024-05-03
# A question that says only what is different: "And in March?", "What about Tobias?"
FOLLOWING = _asks(
    r"\A\W*(?:(?:and|und|et|y)\b|(?:and )?(?:what|how) about\b)"
    r"(?!.*\b(?:who|what|which|when|where|how|is|are|was|were|do|does|did|has|have)\b)"
)
ABOUT = _asks(
    r"\b(?:tell me (?:more )?about|what do (?:you|we|i) (?:know|have) (?:about|on)"
    r"|(?:details|information|info) (?:about|on|of))\b"
)
# It asks for somebody or something, and not for a day.
NO_DAY = _asks(r"\A\W*(?:and |but |by )?(?:whom?\b|what (?:did|do|does|has|have|had)\b)")
WORKING = _asks(r"\bwork(?:s|ed|ing)? (?:in|at)\b")  # not with or for somebody
IDENTITY = _asks(r"\A\W*(?:who|what)(?: is| are|['’]s)\b")
PRICED = {
    "cost", "price", "pay", "paid", "spend", "spent", "expense", "expensive", "cheapest", "dearest",
    "costs", "expenses", "worth",
}  # fmt: skip
PAYING = {"spend", "spent", "pay", "paid"}
# It asks for the sum of what was paid, and not for what may or will be, what each one paid, who was
# paid, or how.
SPENDING = _asks(
    r"\bhow much\b|\bwhat (?:did|do|does|have|has|had)\b.{0,200}\b(?:spend|spent|pay|paid)\b"
    r"(?! (?:with|by)\b| (?:for|on)\W*\Z)"
)
UNSURE = _asks(
    r"\b(?:can|could|will|would|shall|should|might|must|each|every|single"
    r"|(?:is|are|was|were|be|been|being|get|gets|got) paid)\b"
)
PAID_TO = _asks(r"\b(?:pay|pays|paid)\s+(\w+)")
PAYERS = {"paid", "payer", "by", "who", "person", "buyer", "spent"}
SPENT = {"spend", "spent", "spending", "expense", "expenses", "paid"}
MONEY = {
    "price", "cost", "fee", "fare", "amount", "rent", "value", "eur", "usd", "gbp", "chf", "euro",
    "dollar", "betrag", "preis", "kosten", "montant", "importe",
}  # fmt: skip
# An amount of money that went, where nothing says that it is the price of one piece.
AMOUNTS = {
    "amount", "cost", "costs", "expense", "expenses", "spent", "paid", "fee", "rent", "bill",
    "betrag", "kosten", "montant", "importe",
}  # fmt: skip
A_RATE = _asks(r"\b(?:unit|per|each|rate)\b|\w\)?/\s?\w{1,5}\b|[€£$]/")
APIECE = {"unit", "price", "per", "each", "rate"}
DATED = {"latest", "newest", "earliest", "oldest"}
WHEN = {"date", "day", "month", "year", "when", "on", "datum", "tag", "fecha", "start", "time"}
UNITS = {
    "eur", "euro", "usd", "dollar", "gbp", "chf", "kg", "km", "cm", "mm", "days", "hours",
    "minutes", "id",
}  # fmt: skip
# Words that say nothing beyond the question itself.
PLAIN = {
    "list", "show", "name", "give", "tell", "find", "compare", "comes", "come", "came",
    "number", "count", "got", "get", "each", "one", "ones", "s", "please", "pls", "versus",
    "difference", "between", "there", "altogether", "live", "lives", "called", "named",
    "bought", "sold", "used", "single", "overall", "make", "made", "place", "thing", "piece",
    "kind", "item", "items", "anyone", "anybody",
}  # fmt: skip
QUANTITIES = {"quantity", "qty", "stock", "pieces", "hand", "menge", "anzahl"}
PAYMENTS = {"payment", "purchase", "bill", "transaction", "expense"}
CUSTOMERS = {"customer", "client", "kunde"}
# What rows are called besides, and the names of columns that tell it.
ROW_NOUNS = (
    ({"trip", "journey", "ride"}, {"destination", "departure", "distance"}),
    ({"people", "person", "employee", "colleague", "staff"}, {"salary", "department", "position"}),
)
# Words for what a column of one of these names holds.
SYNONYMS = (
    ({"earn", "earns", "earned"}, {"salary", "wage", "wages", "income"}),
    ({"leave", "leaves", "depart", "departs"}, {"departure", "departs"}),
    ({"born"}, {"birthday", "birth"}),
    ({"won", "wins", "win"}, {"winner"}),
    ({"amount", "amounts"}, MONEY),
)
CONTAINERS = {"list", "timetable", "schedule", "overview", "log", "export"}
ROWS = {"row", "rows", "entry", "entries", "table", "sheet", "record", "records"}
KIND = _asks(r"\b(?:which|what|how many)\s+(?:kind of\s+|of the\s+|different\s+)?(\w+)")
# What a row is said to be: "which bike", "how many bikes", "the most expensive bike".
ROW = _asks(
    rf"\b(?:which|how many(?: of the)?|(?:most )?(?:{'|'.join(sorted(_MOST | _LEAST))}))\s+(\w+)"
)
RELATIONS = {
    "more than": ">", "over": ">", "above": ">", "at least": ">=",
    "less than": "<", "fewer than": "<", "under": "<", "below": "<", "at most": "<=",
}  # fmt: skip
AMOUNT = _asks(rf"\b({'|'.join(RELATIONS)})\s+([€£$]?\s?\d(?:[\d.,'’]*\d)?)")
_MORE = "more|higher|greater|larger|bigger|longer|later"
_LESS = "less|fewer|lower|smaller|shorter|earlier"
_ABOVE = "above|over|exceed(?:s|ed|ing)?|after"
# Words that no query here expresses, comparing ones once what they compare with is taken out.
BEYOND = _asks(
    r"\b(?:not|no|non|never|neither|without|except|excluding|than|per|second|third|nicht|pas"
    r"|since|until|till|up to|before|under|below|at least|at most|as (?:\w+ ){1,4}as|nach|seit|bis"
    rf"|{_ABOVE}|(?<!difference )between)\b|n['’]t\b|(?<=[\s,])but\b"
)
# A comparison with what another column says: "more in stock than the minimum", "over budget".
AGAINST = _asks(
    rf"\b(?:(?P<than>{_MORE}|{_LESS})(?P<what>(?:\s+\w+){{0,4}}?)\s+than"
    rf"|(?P<how>at least|at most|{_ABOVE}|below|under|before))"
    r"\s+(?:(?:the|their|its|his|her|own)\s+){0,2}(?=[^\W\d])"
)
CURRENCY = _asks(r"[€£$]|\b(?:eur|usd|gbp|chf|euros?|dollars?|pounds?)\b")
LISTED = _asks(r"\A\W*(?:which|what|who|list|show|name|compare|(?:is|are) there)\b")
# Questions that the page offers about a cell, in its languages: `suggest.cell` of its texts.
CELL = tuple(
    _asks(asked + r"\s?\??")
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


def relation(compared: str) -> str:
    """The operator of a comparison in words: "at least", "exceeds", "higher"."""
    compared = compared.casefold()
    above = re.fullmatch(f"{_MORE}|{_ABOVE}", compared)
    return RELATIONS.get(compared, ">" if above else "<")
