"""Tools that a model may call: how its chat template writes calls, and how to parse them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dragon.inference.grammar import SPACING

MAX_CALLS = 8
"""The most calls of one answer that is forced to call."""

_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
_BETWEEN = "; \t\r\n"  # calls
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class Tool:
    """A function: its name, what it is for, and a JSON schema of its arguments."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=lambda: _NO_PARAMETERS, hash=False)

    def described(self) -> dict[str, Any]:
        """In the form that chat templates take."""
        function: dict[str, Any] = {"name": self.name, "parameters": self.parameters}
        if self.description:
            function["description"] = self.description
        return {"type": "function", "function": function}


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool; `arguments` is the text of a JSON object."""

    name: str
    arguments: str
    id: str = field(default_factory=lambda: f"call_{secrets.token_hex(12)}")

    def described(self) -> dict[str, Any]:
        """In the form that chat templates take; raises `ValueError` if `arguments` is not JSON."""
        function = {"name": self.name, "arguments": json.loads(self.arguments)}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True)
class CallFormat:
    """How a family of models writes a call: what surrounds it, and the name of its arguments."""

    begin: str
    end: str
    arguments: str

    def grammar(self, tools: Sequence[Tool], *, parallel: bool) -> str:
        """The grammar of an answer that calls one of the tools, several times if `parallel`."""
        more = f' ("\\n" call){{0,{MAX_CALLS - 1}}}' if parallel and self.begin else ""
        names = " | ".join(f"call_{number}" for number in range(len(tools)))
        rules = ["%llguidance {}", f"start: call{more}", f"call: {names}"]
        for number, tool in enumerate(tools):
            # Each schema has its own root, so that its references resolve.
            before = f'{self.begin}{{"name": {json.dumps(tool.name)}, "{self.arguments}": '
            # Allow only described arguments.
            closed = {"additionalProperties": False} if "properties" in tool.parameters else {}
            schema = json.dumps(
                {"type": "object", **closed, **tool.parameters, "x-guidance": SPACING}
            )
            rules.append(
                f"call_{number}: {json.dumps(before)} arguments_{number} "
                f"{json.dumps('}' + self.end)}"
            )
            rules.append(f"arguments_{number}: %json {schema}")
        return "\n".join(rules)

    def calls(self, text: str) -> list[ToolCall]:
        """The calls that a text consists of, one after another; none if it is anything else."""
        calls: list[ToolCall] = []
        while rest := text.lstrip(_BETWEEN):
            try:
                found, end = _DECODER.raw_decode(rest)
            except (ValueError, RecursionError):
                return []
            if not isinstance(found, dict) or not isinstance(found.get("name"), str):
                return []
            arguments = found.get(self.arguments, {})
            if not isinstance(arguments, dict):
                return []
            calls.append(ToolCall(found["name"], json.dumps(arguments, ensure_ascii=False)))
            text = rest[end:]
        return calls


HERMES = CallFormat("<tool_call>\n", "\n</tool_call>", "arguments")
"""Used by Qwen's and Hermes' models."""

LLAMA = CallFormat("", "", "parameters")
"""Used by Llama 3: the call is the whole answer."""


def form_of(rendered: str) -> CallFormat | None:
    """The form in which a template writes calls, None if unknown."""
    if HERMES.begin.strip() in rendered:
        return HERMES
    return LLAMA if f'"{LLAMA.arguments}":' in rendered else None


class CallReader:
    """Parses the text of an answer as it comes, into text and calls."""

    def __init__(self, form: CallFormat) -> None:
        self._form = form
        self._begin, self._end = form.begin.strip(), form.end.strip()
        self._held = ""
        self._inside = False

    def push(self, text: str) -> tuple[str, list[ToolCall]]:
        """Add text; return what is certain not to be a call, and the calls that are complete."""
        self._held += text
        if not self._begin:
            # The whole answer is a call, or none of it.
            return self._take(0 if self._held.lstrip()[:1] in ("", "{") else len(self._held)), []
        said = ""
        calls: list[ToolCall] = []
        while True:
            if not self._inside:
                at = self._held.find(self._begin)
                if at < 0:
                    return said + self._take(self._certain()), calls
                said += self._take(at).rstrip()
                self._inside = True
            at = self._held.find(self._end)
            if at < 0:
                return said, calls
            whole = self._take(at + len(self._end))
            found = self._form.calls(whole[len(self._begin) : -len(self._end)])
            calls += found
            said += "" if found else whole
            self._inside = False

    def finish(self) -> tuple[str, list[ToolCall]]:
        """Return what was held back; a call that was cut off counts as text."""
        rest = self._take(len(self._held))
        if not self._begin:
            calls = self._form.calls(rest)
        elif self._inside:
            calls = self._form.calls(rest[len(self._begin) :])
        else:
            calls = []
        return ("", calls) if calls else (rest if rest.strip() else "", [])

    def _take(self, length: int) -> str:
        taken, self._held = self._held[:length], self._held[length:]
        return taken

    def _certain(self) -> int:
        """How many of the held characters cannot belong to the beginning of a call."""
        text = self._held
        return len(text[: len(text) - overlap(text, self._begin)].rstrip())


def overlap(text: str, mark: str) -> int:
    """How many characters at the end of a text may begin a mark."""
    most = min(len(text), len(mark) - 1)
    return next((n for n in range(most, 0, -1) if text.endswith(mark[:n])), 0)
