"""Requests to every route that asks the device, full of canaries."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from bench.lib.canaries import Canaries, Place
from bench.lib.crossed import NOTED, Refused, Wire
from bench.lib.mcp_tool import call_tool
from bench.lib.unasked import Unasked
from harness.page import Page

PUBLIC = (
    "What is the capital of Kenya?",
    "Who discovered penicillin?",
    "How high is Mount Kenya?",
    "What is the capital of Bhutan?",
)
WHEN_NEEDED, ALWAYS, NEVER = "when_needed", "always", "never"
_TOKENS = 32

Turn = dict[str, Any]
Way = Callable[[str], None]


def user(text: str) -> Turn:
    """A person's turn."""
    return {"role": "user", "content": text}


def assistant(text: str) -> Turn:
    """The device's turn."""
    return {"role": "assistant", "content": text}


def _answered(reply: dict[str, Any]) -> str:
    """The texts of the answers in a reply, whatever its route."""
    match reply:
        case {"choices": choices}:
            said = [each.get("text", each.get("message", {}).get("content")) for each in choices]
        case {"output": items}:
            said = [part["text"] for each in items for part in each.get("content", ())]
        case {"content": parts}:
            said = [part.get("text") for part in parts]
        case {"message": message}:
            said = [message["content"]]
        case {"response": text} | {"text": text}:
            said = [text]
        case _:
            raise RuntimeError(f"no answer is known in this reply: {reply}")
    return "\n".join(each or "" for each in said)


@dataclass
class Routes:
    """Requests to one route after another; `model` is the one that writes."""

    wire: Wire
    canaries: Canaries
    model: str
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def ways(self) -> Iterator[tuple[Way, str]]:
        """Endlessly, every way to ask on each rung; ways that take none are on the default."""
        on_each: list[Way] = [
            self.chat, self.history, self.private_turn, self.changed, self.given_up,
            self.instructions, self.unanswered, self.completion, self.scored, self.echoed,
            self.responses, self.response_private, self.response_list, self.tools,
            self.schema, self.regex, self.biased, self.summary, self.title, self.follow_ups,
            self.suggestions, self.raw_chat, self.messages, self.page, self.project, self.mcp,
            self.both,
        ]  # fmt: skip
        usual: list[Way] = [
            self.ollama_chat, self.ollama_generate, self.budget, self.fetched, self.no_answers,
        ]  # fmt: skip
        for cycle in itertools.count():
            for number, way in enumerate(on_each):
                yield way, (WHEN_NEEDED, ALWAYS, WHEN_NEEDED, NEVER)[(cycle + number) % 4]
            for way in usual:
                yield way, WHEN_NEEDED

    # What is asked.

    def public(self) -> str:
        """A question for the cloud, with a word of its own."""
        asked = PUBLIC[next(self._numbers) % len(PUBLIC)]
        return f"{asked} {self.canaries.new(Place.QUESTION)} wants to know."

    def own(self) -> str:
        """A question that a document answers."""
        thing, place = NOTED[next(self._numbers) % len(NOTED)]
        return f"What is the {thing} of the {place}?"

    def secret(self) -> str:
        """A question that must stay private."""
        return f"Who is the therapist of {self.canaries.new(Place.PRIVATE)}?"

    # How.

    def post(self, what: str, rung: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make a request and return the reply. If it is refused, nothing may be sent."""
        device = self.wire.device
        sent = {"model": self.model, **body}
        found: dict[str, Any] = {}

        def send() -> str:
            url = f"{device.url}{path}"
            reply = httpx.post(url, headers=device.headers, json=sent, timeout=300)
            if not reply.is_success:
                raise Refused(reply.text)
            found.update(reply.json())
            return _answered(found)

        self.wire.request(what, rung, send)
        return found

    def asked(self, what: str, rung: str, turns: Sequence[Turn], **more: Any) -> str:
        """Send a chat, and return the answer."""
        own = {"cloud": rung, **more.pop("dragon", {})}
        body = {"messages": list(turns), "max_tokens": _TOKENS, "dragon": own, **more}
        reply = self.post(what, rung, "/v1/chat/completions", body)
        return _answered(reply) if reply else ""

    def chat(self, rung: str) -> None:
        """One question, two answers, with log-probabilities."""
        more = {"n": 2, "logprobs": True, "top_logprobs": 2}
        self.asked("chat", rung, [user(self.public())], **more)

    def history(self, rung: str) -> None:
        """A question that documents answer, then one for the cloud, then the last one anew."""
        first = self.own()
        turns = [user(first), assistant(self.asked("chat, own", rung, [user(first)]))]
        turns.append(user(self.public()))
        self.asked("chat, then public", rung, turns)
        turns[-1] = user("And why is that so?")
        self.asked("chat, leaning", rung, turns)

    def private_turn(self, rung: str) -> None:
        """A turn that is private by choice, and a public one."""
        first = user(self.secret())
        said = self.asked("chat, private", NEVER, [first])
        told = f"{said} So {self.canaries.new(Place.PRIVATE)} it is." if rung != ALWAYS else said
        self.asked("chat, after", rung, [first, assistant(told), user(self.public())])

    def changed(self, rung: str) -> None:
        """A private turn that a program sends back changed."""
        first = user(self.secret())
        said = self.asked("chat, private", NEVER, [first])
        for told in (f"**Answer.** {said}", said[: len(said) // 2] or "No.", "Yes."):
            self.asked("chat, changed", rung, [first, assistant(told), user(self.public())])

    def given_up(self, rung: str) -> None:
        """A private question whose answer is aborted, then a public one."""
        first = user(self.secret())

        def send() -> str:
            device, said = self.wire.device, ""
            body = {"model": self.model, "messages": [first], "stream": True, "max_tokens": _TOKENS}
            body |= {"dragon": {"cloud": NEVER}}
            url = f"{device.url}/v1/chat/completions"
            with httpx.stream("POST", url, headers=device.headers, json=body, timeout=300) as reply:
                for line in reply.iter_lines():
                    if line.startswith("data: {"):
                        choices = json.loads(line[6:])["choices"]
                        said = "".join(each["delta"].get("content") or "" for each in choices)
                    if said:
                        break
            return said

        self.wire.request("chat, given up", NEVER, send)
        self.asked("chat, after it", rung, [first, user(self.public())])

    def instructions(self, rung: str) -> None:
        """A system's and a developer's message, no passages."""
        turns = [
            {"role": role, "content": f"You work for {self.canaries.new(Place.INSTRUCTIONS)}."}
            for role in ("system", "developer")
        ]
        self.asked("instructions", rung, [*turns, user(self.public())])
        self.asked("instructions, bare", rung, [*turns, user(self.public())], dragon={"top_k": 0})

    def unanswered(self, rung: str) -> None:
        """Two questions in a row, of which the first was not answered."""
        place = Place.QUESTION if rung == ALWAYS else Place.PRIVATE
        first = user(f"What do I owe {self.canaries.new(place)}?")
        self.asked("two questions", rung, [first, user(self.public())], dragon={"top_k": 0})

    def completion(self, rung: str) -> None:
        """A text to continue."""
        text = f"The capital of {self.canaries.new(Place.PROMPT)} is"
        body = {"prompt": text, "max_tokens": _TOKENS, "dragon": {"cloud": rung}}
        self.post("completion", rung, "/v1/completions", body)

    def scored(self, rung: str) -> None:
        """A text that is only scored."""
        text = f"The river of {self.canaries.new(Place.PROMPT)} is long."
        body = {"prompt": text, "max_tokens": 0, "echo": True, "logprobs": 1}
        body |= {"dragon": {"cloud": rung}}
        self.post("scored", rung, "/v1/completions", body)

    def echoed(self, rung: str) -> None:
        """A text that is echoed before it is continued."""
        text = f"The river of {self.canaries.new(Place.PROMPT)} is long and"
        body = {"prompt": text, "max_tokens": _TOKENS, "echo": True, "logprobs": 1}
        self.post("echoed", rung, "/v1/completions", body | {"dragon": {"cloud": rung}})

    def response_private(self, rung: str) -> None:
        """A private response, then public ones: one that follows it, and one of a list with it."""
        body: dict[str, Any] = {"max_output_tokens": _TOKENS, "dragon": {"cloud": NEVER}}
        asked = self.secret()
        first = self.post("response, private", NEVER, "/v1/responses", body | {"input": asked})
        body |= {"dragon": {"cloud": rung}}
        follows = body | {"previous_response_id": first["id"], "input": self.public()}
        self.post("response, after", rung, "/v1/responses", follows)
        items = [user(asked), *first["output"], user(self.public())]
        self.post("response, list after", rung, "/v1/responses", body | {"input": items})

    def responses(self, rung: str) -> None:
        """A response that follows another, which documents answered."""
        own = {"cloud": rung}
        told = f"You work for {self.canaries.new(Place.INSTRUCTIONS)}."
        body: dict[str, Any] = {"max_output_tokens": _TOKENS, "dragon": own}
        first = self.post("response, own", rung, "/v1/responses", body | {"input": self.own()})
        body |= {"previous_response_id": first["id"], "instructions": told}
        second = self.post("response", rung, "/v1/responses", body | {"input": self.public()})
        body |= {"previous_response_id": second["id"]}
        self.post("response, leaning", rung, "/v1/responses", body | {"input": "And who said so?"})

    def response_list(self, rung: str) -> None:
        """A list of items, one of them not answered."""
        place = Place.QUESTION if rung == ALWAYS else Place.PRIVATE
        items = [user(f"My debt is with {self.canaries.new(place)}."), user(self.public())]
        body = {"input": items, "max_output_tokens": _TOKENS, "dragon": {"cloud": rung}}
        self.post("response, list", rung, "/v1/responses", body)
        found = {"tools": [{"type": "file_search"}], "include": ["file_search_call.results"]}
        self.post("response, found", rung, "/v1/responses", body | found | {"input": self.own()})

    def tools(self, rung: str) -> None:
        """A tool, its call, and what it returned."""
        described = {
            "name": "look_up",
            "description": f"Looks up {self.canaries.new(Place.TOOLS)}.",
            "parameters": {"type": "object", "properties": {"what": {"type": "string"}}},
        }
        place = Place.TOOLS if rung == ALWAYS else Place.PRIVATE
        arguments = json.dumps({"what": self.canaries.new(place)})
        called = {"name": "look_up", "arguments": arguments}
        call = {"id": "call_1", "type": "function", "function": called}
        returned = f"It is {self.canaries.new(place)}."
        turns: list[Turn] = [
            user(self.public()),
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": returned},
        ]
        offered = [{"type": "function", "function": described}]
        self.asked("tools", rung, turns, tools=offered)
        self.asked("tools, bare", rung, turns, tools=offered, dragon={"top_k": 0})

    def schema(self, rung: str) -> None:
        """A schema that the answer keeps to."""
        names = [self.canaries.new(Place.FORMAT), "Nairobi"]
        described = {"type": "object", "properties": {"city": {"enum": names}}}
        held = {"type": "json_schema", "json_schema": {"name": "city", "schema": described}}
        self.asked("schema", rung, [user(self.public())], response_format=held)

    def regex(self, rung: str) -> None:
        """An expression that the answer matches."""
        held = {"regex": f"({self.canaries.new(Place.FORMAT)}|Nairobi)"}
        self.asked("regex", rung, [user(self.public())], dragon=held)

    def biased(self, rung: str) -> None:
        """Tokens made likelier by a bias."""
        word = self.canaries.new(Place.FORMAT)
        biased = {str(token): 5 for token in self.wire.tokenizer.encode(f" {word}")}
        self.asked("biased", rung, [user(self.public())], logit_bias=biased)

    def summary(self, rung: str) -> None:
        """A summary of a document."""
        _, place = NOTED[next(self._numbers) % len(NOTED)]
        self.asked("summary", rung, [user(f"Summarise what I noted of the {place}.")])

    # Tasks that programs send by themselves, with a chat in one message.

    def _task(self, what: str, rung: str, task: str) -> None:
        first = self.own()
        said = self.asked("chat, own", rung, [user(first)])
        place = Place.PRIVATE if rung == WHEN_NEEDED else Place.QUESTION
        first += f" {self.canaries.new(place)} asks."
        chat = f"<chat_history>\nUSER: {first}\nASSISTANT: {said}\n</chat_history>"
        self.asked(what, rung, [user(f"### Task:\n{task}\n### Chat History:\n{chat}")])

    def title(self, rung: str) -> None:
        """A title for a chat."""
        task = "Generate a concise, 3-5 word title with an emoji summarizing the chat history."
        self._task("title", rung, task)

    def follow_ups(self, rung: str) -> None:
        """Questions to ask next."""
        task = "Suggest 3-5 relevant follow-up questions that the user might naturally ask next."
        self._task("follow-ups", rung, task)

    def suggestions(self, rung: str) -> None:
        """Tags, and words to search with."""
        task = "Generate 1-3 broad tags categorizing the main themes of the chat history."
        self._task("suggestions", rung, task)

    def raw_chat(self, rung: str) -> None:
        """A chat to which a program has applied the template itself."""
        first = self.own()
        said = self.asked("chat, own", rung, [user(first)])
        turns = [("user", first), ("assistant", said), ("user", self.public())]
        told = [f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in turns]
        body = {"prompt": "".join([*told, "<|im_start|>assistant\n"]), "max_tokens": _TOKENS}
        self.post("chat as a text", rung, "/v1/completions", body | {"dragon": {"cloud": rung}})

    # Other APIs.

    def messages(self, rung: str) -> None:
        """Anthropic's route."""
        told = f"You work for {self.canaries.new(Place.INSTRUCTIONS)}."
        body: dict[str, Any] = {"max_tokens": _TOKENS, "dragon": {"cloud": rung}}
        turns = [user(self.own())]
        said = self.post("messages, own", rung, "/v1/messages", body | {"messages": turns})
        turns += [{"role": "assistant", "content": said["content"]}, user(self.public())]
        self.post("messages", rung, "/v1/messages", body | {"messages": turns, "system": told})

    def ollama_chat(self, rung: str) -> None:
        """Ollama's chat."""
        told = {"role": "system", "content": f"Serve {self.canaries.new(Place.INSTRUCTIONS)}."}
        own = self.own()
        body = {"stream": False, "options": {"num_predict": _TOKENS}}
        said = self.post("Ollama, own", rung, "/api/chat", body | {"messages": [user(own)]})
        turns = [told, user(own), assistant(said["message"]["content"]), user(self.public())]
        self.post("Ollama, chat", rung, "/api/chat", body | {"messages": turns})

    def ollama_generate(self, rung: str) -> None:
        """Ollama's other route, with the template and without."""
        body = {"stream": False, "options": {"num_predict": _TOKENS}}
        told = {"system": f"Serve {self.canaries.new(Place.INSTRUCTIONS)}."}
        whole = body | told | {"prompt": self.public()}
        self.post("Ollama, generate", rung, "/api/generate", whole)
        text = f"The capital of {self.canaries.new(Place.PROMPT)} is"
        self.post("Ollama, raw", rung, "/api/generate", body | {"prompt": text, "raw": True})

    def mcp(self, rung: str) -> None:
        """An assistant's tool."""
        arguments = {"question": self.public(), "cloud": rung}
        device = self.wire.device
        self.wire.request("MCP", rung, lambda: _answered(call_tool(device, "ask", arguments)))

    def budget(self, rung: str) -> None:
        """An answer with a bound on what it says of passages."""
        self.asked("budget", ALWAYS, [user(self.own())], dragon={"cloud": ALWAYS, "epsilon": 8})

    def fetched(self, rung: str) -> None:
        """Passages of the cloud, to answer without it."""
        fetching = {"aggregation": "context_text", "cloud": ALWAYS}
        self.asked("fetched", ALWAYS, [user(self.public())], dragon=fetching)

    def no_answers(self, rung: str) -> None:
        """Searches, counts, views and exports, which must send nothing."""
        for what, send in Unasked(self.wire.device, self.model, self.secret()).each():
            self.wire.request(what, NEVER, send)

    def both(self, rung: str) -> None:
        """A question that documents answer in part."""
        asked = "What is the capital of the country I fly to in June?"
        self.asked("both sides", rung, [user(asked)])

    # The page.

    def page(self, rung: str) -> None:
        """A chat on the page: private, public, continued, regenerated, edited, renamed."""
        device, request = self.wire.device, self.wire.request
        open_, private = _params(rung), _params(NEVER)
        with Page.opened(device) as page:
            request("page, private", NEVER, lambda: page.say(self.secret(), private))
            request("page, own", rung, lambda: page.say(self.own(), open_))
            before = page.answer
            short = open_ | {"max_tokens": 8}
            request("page, public", rung, lambda: page.say(self.public(), short))
            request("page, continued", rung, lambda: page.go_on(open_))
            request("page, again", rung, lambda: page.again(open_))
            edited = self.public()
            request("page, edited", rung, lambda: page.say(edited, open_, parent=before))
            url = f"{device.url}/api/conversations/{page.conversation}"
            named = {"title": f"Of {self.canaries.new(Place.NAME)}"}
            httpx.patch(url, headers=device.headers, json=named, timeout=60).raise_for_status()
            request("page, named", rung, lambda: page.say(self.public(), open_))

    def project(self, rung: str) -> None:
        """A chat of a project with an instruction."""
        device, name = self.wire.device, self.canaries.new(Place.NAME)
        told = f"Work for {self.canaries.new(Place.INSTRUCTIONS)}."
        body = {"name": name, "instruction": told}
        url = f"{device.url}/api/projects"
        httpx.put(url, headers=device.headers, json=body, timeout=60).raise_for_status()
        with Page.opened(device) as page:
            asked = self.public()
            self.wire.request("project", rung, lambda: page.say(asked, _params(rung), project=name))


def _params(rung: str) -> dict[str, Any]:
    """What the page sends with a question."""
    kept = {"private": True} if rung == NEVER else {"cloud": rung}
    return {"max_tokens": _TOKENS, **kept}
