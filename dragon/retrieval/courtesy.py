"""What a question asks for, without the words that people put around it.

"Hi! Could you tell me where the tent is, please?" looks for a tent. A passage with "tell" in it
fits no better, and one without it no worse.
"""

from __future__ import annotations

import re

from dragon.retrieval.lexical import content_words

_ASKS = r"(?:can|could|would|will) you (?:please |kindly )?|please |kindly "
_BEFORE = re.compile(
    rf"""\s*(?:
      (?:hi|hello|hey|greetings|good\ (?:morning|afternoon|evening))(?:\ there)?[,!.:]
    | (?:sorry|excuse\ me|ok|okay|well|so|and|thanks|please)[,!.:]
    | (?:i\ have\ a|just\ a|a|one)?\ ?(?:quick\ |short\ )?question[,.:!]
    | just\ to\ be\ sure,
    | (?:{_ASKS.replace(" ", chr(92) + " ")})?(?:tell|remind)\ me[,:]?(?=\s)
    | (?:do|does)\ (?:you|anybody|anyone)\ (?:know|remember)(?=\s)
    | (?:do\ you\ have\ )?any\ idea,?(?=\s)
    | i\ (?:(?:just\ )?forgot|wonder|can't\ remember|(?:want|need|would\ like)\ to\ know)(?=\s)
    )\s*""",
    re.IGNORECASE | re.VERBOSE,
)
_AFTER = re.compile(
    r"[\s,.!?]+(?:please|thanks|thank you|thanks a lot|many thanks|cheers|i forgot"
    r"|(?:please|can you|could you) tell me|do you know)[\s.!?]*$",
    re.IGNORECASE,
)


def plain(question: str) -> str:
    """The question that is left, or all of it if nothing that tells passages apart would be."""
    left = question
    while match := _BEFORE.match(left):
        left = left[match.end() :]
    while match := _AFTER.search(left):
        left = left[: match.start()] + "?"
    return left if content_words(left) else question
