"""The frames of `/ws/chat` about one answer, made from its events."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from app.api.page.markdown import Block
from app.generation.accumulator import Choice
from app.generation.events import (
    Detailed,
    Event,
    Finished,
    PeerChanged,
    PromptDetailed,
    SourcesFound,
    TextDelta,
)

Frame = dict[str, Any]


def told(answer_id: str, event: Event, ledger: str) -> Frame:
    """An event as the page hears it; `ledger` is the answer's id under `/api/ledger`."""
    match event:
        case SourcesFound():
            return {"type": "sources", "id": answer_id, **asdict(event)}
        case TextDelta(text=text):
            return {"type": "token", "id": answer_id, "text": text}
        case Detailed(details=details) | PromptDetailed(details=details):
            tokens = [detail.provenance() for detail in details]
            return {"type": "detail", "id": answer_id, "tokens": tokens}
        case PeerChanged():
            return {"type": "peer", "id": answer_id, **asdict(event)}
        case Finished():
            return {
                "type": "done",
                "id": answer_id,
                "finish_reason": event.reason,
                "ledger": ledger,
                "usage": {
                    "prompt_tokens": event.prompt_tokens,
                    "completion_tokens": event.completion_tokens,
                },
                "dragon": {
                    **event.stats,
                    "hops": event.hops,
                    "participation": event.participation,
                    "verdicts": event.verdicts,
                    "trace": event.trace,
                },
            }


def cancelled(answer_id: str, answer: Choice | None) -> Frame:
    """The end of an answer that was stopped; `answer` is None where it had not begun."""
    return {
        "type": "done",
        "id": answer_id,
        "finish_reason": "cancelled",
        "ledger": answer.request.id if answer else None,
        "usage": {
            "prompt_tokens": len(answer.request.conversation) if answer else 0,
            "completion_tokens": len(answer.tokens) if answer else 0,
        },
        "dragon": {"participation": answer.participation if answer else []},
    }


def block(answer_id: str, index: int, part: Block, *, open_: bool) -> Frame:
    """A block of an answer; an open one is told again as it grows.

    `start` is the character offset of its Markdown `text` in the answer; `tail` is the end of it
    that is not in `html` yet.
    """
    return {
        "type": "block",
        "id": answer_id,
        "index": index,
        "open": open_,
        **asdict(part),
    }
