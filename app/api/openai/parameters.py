"""Turns the body of a REST request into requests to the generation service."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from app.api.openai.field_types import wrong
from app.api.openai.schemas import (
    MAX_CHOICES,
    AnswerOptions,
    ChatBody,
    CompletionBody,
    DragonOptions,
    GenerationBody,
    TokenizeBody,
)
from app.api.openai.structured import checked
from app.api.openai.turns import NamedTool, as_messages
from app.container import AppState
from app.generation.events import GenerationRequest
from app.generation.prompts import chat_prompt, shortened, text_prompt
from app.settings import Cloud, Settings
from dragon.errors import InvalidRequestError
from dragon.inference.chat_template import Rendering
from dragon.inference.choice import DefaultSampling
from dragon.inference.reading import BEGIN, Reading
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.inference.tools import CallFormat, Tool
from dragon.sampling.params import Mode, Sampling

_END = 8  # last tokens of a prompt in which reasoning may begin


async def chat_requests(body: ChatBody, state: AppState) -> list[GenerationRequest]:
    """A generation for each choice of a chat, with the cloud's view of it.

    A limit that exceeds the context becomes the default one.
    """
    messages = as_messages(body.messages)
    tools, form = offered(body, state.generation.tokenizer, messages)
    rendering = rendering_of(body, tools, state.generation.tokenizer)
    if body.truncation == "auto":
        messages = await shortened(state.generation, messages, rendering, body.limit or 1)
    asked = body.dragon.cloud if body.dragon else None
    trusted = (asked or state.settings.cloud) is Cloud.ALWAYS
    view = await state.generation.cloud_view.of(messages, trusted=trusted)
    cut = body.truncate_prompt_tokens is not None
    prompt = await chat_prompt(state.generation, messages, view, rendering, to_cut=cut)
    grammar = await checked(partial(_held, body, tools, form), state, raw=False)
    requests = requests_of(body, [prompt], state, grammar)
    # Many clients set a limit for a much larger model: it is only an upper bound.
    room = state.generation.room
    return [
        replace(each, max_tokens=None) if len(each.conversation) > room(each) else each
        for each in requests
    ]


def rendering_of(
    body: ChatBody | TokenizeBody, tools: Sequence[Tool], tokenizer: Tokenizer
) -> Rendering:
    """How the template renders a chat: by default it continues a last turn of the assistant.

    Raises `InvalidRequestError` if both that and a new turn are requested, or there is no such
    turn.
    """
    last = (body.messages or [])[-1]
    speaks = last.role == "assistant" and not last.tool_calls
    continued = body.continue_final_message
    if continued and body.add_generation_prompt:
        raise wrong("continue_final_message", "contradicts add_generation_prompt; send one of them")
    if continued and not speaks:
        raise wrong("continue_final_message", "the last message is not the assistant's")
    if continued is None:
        continued = speaks and not body.add_generation_prompt
    begun = body.add_generation_prompt is not False
    return Rendering(tuple(tools), variables_of(body, tokenizer), continued=continued, begun=begun)


def variables_of(body: ChatBody | TokenizeBody, tokenizer: Tokenizer) -> dict[str, Any]:
    """Variables for the template: the client's own, and those about reasoning."""
    own = dict(body.chat_template_kwargs or {})
    if isinstance(body, TokenizeBody):
        return own
    effort, thinks = body.reasoning_effort, body.enable_thinking
    if thinks is None and effort is not None:
        thinks = effort != "none"
    asked = {"enable_thinking": thinks, "thinking": thinks, "reasoning_effort": effort}
    known = {name: asked[name] for name in tokenizer.variables if asked[name] is not None}
    return known | own


def reading_of(body: ChatBody, request: GenerationRequest, tokenizer: Tokenizer) -> Reading:
    """How to read the answer to a chat: whether it may contain calls or begin with reasoning."""
    end = tokenizer.decode(request.conversation[-_END:], special=True).rstrip()
    # An answer held to a grammar does not begin inside reasoning.
    return Reading(
        tokenizer.call_form if _may_call(body) else None,
        reasons=tokenizer.reasons,
        begun=end.endswith(BEGIN) and not request.sampling.grammar,
    )


def _may_call(body: ChatBody) -> bool:
    return bool(body.tools) and body.tool_choice != "none"


def require_tools(messages: Sequence[Message], tokenizer: Tokenizer) -> None:
    """Raises `InvalidRequestError` for turns with calls if the model's template has no tools."""
    called = any(message.calls or message.role == "tool" for message in messages)
    if called and tokenizer.call_form is None:
        raise _without("messages")


def _without(param: str) -> InvalidRequestError:
    return wrong(
        param,
        "this model's chat template has no tools, or calls them in a form that is not known here; "
        'use another model, or send tool_choice "none" and no calls',
    )


def offered(
    body: ChatBody, tokenizer: Tokenizer, messages: Sequence[Message]
) -> tuple[list[Tool], CallFormat | None]:
    """The tools that the model may call, and how it writes calls; None if it may call none.

    Raises `InvalidRequestError` for a model whose chat template has no tools, even if only the
    messages have calls, and for a choice that is not among the tools.
    """
    if not body.tools and body.tool_choice not in (None, "none", "auto"):
        raise wrong("tool_choice", "there are no tools")
    form = tokenizer.call_form
    if _may_call(body) and form is None:
        raise _without("tools")
    require_tools(messages, tokenizer)
    if not _may_call(body):
        return [], None
    tools = [each.tool() for each in body.tools]
    choice = body.tool_choice
    if isinstance(choice, NamedTool) and choice.function.name not in {t.name for t in tools}:
        raise wrong("tool_choice", f"there is no tool {choice.function.name!r}")
    return tools, form


def _held(body: ChatBody, tools: Sequence[Tool], form: CallFormat | None) -> tuple[str, str]:
    """The grammar of a chat's answer, and the parameter that sets it; see `held_to`."""
    text, param = body.grammar()
    if form is None:
        return text, param
    if text:
        raise wrong(param, 'contradicts tools; send tool_choice "none" with it')
    choice = body.tool_choice
    if isinstance(choice, NamedTool):
        tools = [tool for tool in tools if tool.name == choice.function.name]
        return form.grammar(tools, parallel=False), "tools"
    if choice == "required":
        return form.grammar(tools, parallel=body.parallel_tool_calls is not False), "tools"
    return "", "tools"


async def completion_requests(body: CompletionBody, state: AppState) -> list[GenerationRequest]:
    """A generation for each choice of each prompt of a completion."""
    cut = body.truncate_prompt_tokens is not None
    prompts = [
        await text_prompt(state.generation, each, body.suffix or "", to_cut=cut)
        for each in body.prompt
    ]
    requests = requests_of(body, prompts, state, await checked(body.grammar, state, raw=True))
    if not body.suffix:
        return requests
    ends = frozenset(state.generation.tokenizer.filled)
    return [replace(each, stop_tokens=each.stop_tokens | ends) for each in requests]


def requests_of(
    body: GenerationBody,
    prompts: Sequence[GenerationRequest],
    state: AppState,
    grammar: str = "",
) -> list[GenerationRequest]:
    """A generation for each choice of each prompt, the choices of a prompt adjacent.

    Each is held to the `grammar`, if any. Raises `InvalidRequestError`.
    """
    options = body.dragon or DragonOptions()
    if body.written * len(prompts) > MAX_CHOICES:
        raise wrong(
            "n", f"{body.written} choices for {len(prompts)} prompts exceed {MAX_CHOICES} answers"
        )
    mode = options.aggregation or state.settings.aggregation
    if options.epsilon is not None:
        _check_bounded(body, options, mode)
    sampling = sampling_of(body, state, mode, grammar)
    made: list[GenerationRequest] = []
    for prompt in prompts:
        request = replace(
            request_for(prompt, sampling, options, state.settings),
            max_tokens=body.limit,
            stop=tuple(body.stop),
            stop_tokens=frozenset(body.stop_token_ids or ()),
            with_stop=bool(body.include_stop_str_in_output),
            special=body.skip_special_tokens is False,
            mode=mode,
            raw=body.RAW,
            details=body.details,
            epsilon=options.epsilon,
            wait=options.wait,
        )
        if request.wait and request.private:
            raise wrong("dragon.wait", "the cloud is never asked; leave it out")
        if (tokens := body.truncate_prompt_tokens) is not None:
            request = request.cut(_room(request, tokens, state))
        # A prompt is scored once, with its first choice.
        unscored = body.details and replace(body.details, prompt=False)
        made.append(request.another(len(made)))
        made += (
            replace(request.another(stream), details=unscored)
            for stream in range(len(made), len(made) + body.written - 1)
        )
    return made


def sampling_of(body: GenerationBody, state: AppState, mode: Mode, grammar: str) -> Sampling:
    """The sampling a request asks for, with the model's defaults.

    Raises `InvalidRequestError` for a bias of an unknown token, and for a minimum length that is
    above the limit or that a quoting model cannot keep.
    """
    bias = tuple((int(token), value) for token, value in (body.logit_bias or {}).items())
    vocabulary = state.generation.tokenizer.vocab_size
    if any(token >= vocabulary for token, _ in bias):
        raise wrong("logit_bias", f"token ids must be below {vocabulary}")
    param = "ignore_eos" if body.ignore_eos else "min_tokens"
    if body.least_tokens and state.generation.quotes_alone and not body.RAW:
        raise wrong(param, "this model quotes whole sentences and ends with them; leave it out")
    if body.least_tokens and grammar:
        raise wrong(param, "the format determines where an answer ends")
    if body.limit is not None and (body.min_tokens or 0) > body.limit:
        raise wrong("min_tokens", f"{body.min_tokens} exceeds the limit of {body.limit}")
    bounded = body.dragon is not None and body.dragon.epsilon is not None
    given = {
        "temperature": body.temperature,
        "top_p": body.top_p,
        "top_k": None if body.top_k is None else max(0, body.top_k),
        "min_p": body.min_p,
        "repetition_penalty": body.repetition_penalty,
    }
    return replace(
        Sampling(
            seed=seed_or_new(body.seed),
            logit_bias=bias,
            presence_penalty=body.presence_penalty or 0.0,
            frequency_penalty=body.frequency_penalty or 0.0,
            min_tokens=body.least_tokens,
            grammar=grammar,
        ),
        **_usual(state.generation.default_sampling, mode, bounded=bounded)
        | {name: value for name, value in given.items() if value is not None},
    )


def _usual(usual: DefaultSampling, mode: Mode, *, bounded: bool) -> dict[str, Any]:
    """The model's defaults, as fields of `Sampling`.

    Algorithm 1 supports only a repetition penalty and greedy decoding; a bound needs randomness.
    """
    greedy = usual.temperature == 0.0 and not bounded
    fields: dict[str, Any] = asdict(usual)
    if not mode.takes_any_sampling:
        fields = {"repetition_penalty": usual.repetition_penalty}
    if usual.temperature is None or bounded or not mode.takes_any_sampling:
        fields["temperature"] = 0.0 if greedy else 1.0
    return fields


def _room(request: GenerationRequest, tokens: int, state: AppState) -> int:
    """How many tokens of a conversation stay if the prompt may have at most `tokens`.

    -1 means as many as the model takes. Raises `InvalidRequestError` if none stay.
    """
    before = len(state.generation.tokenizer.bare_row(raw=request.raw, begins=request.begins))
    room = state.generation.room(request) if tokens < 0 else tokens - before
    if room < 1:
        raise wrong(
            "truncate_prompt_tokens",
            f"{before} tokens stand before every prompt, and the answer behind it: ask for more of "
            "the one or less of the other",
        )
    return room


def _check_bounded(body: GenerationBody, options: DragonOptions, mode: Mode) -> None:
    """Raises `InvalidRequestError` for parameters that an answer with a budget cannot have."""
    private = mode.joint and not mode.sends_up
    whole = "they, provenance and best_of are not for such answers"
    for refused, param, why in (
        (not private, "dragon.aggregation", "only `oneway` sends no distribution"),
        (body.temperature == 0.0, "temperature", "a bound needs chance: leave it out"),
        (body.seed is not None, "seed", "its noise is never repeated: leave it out"),
        (body.details is not None, "logprobs", whole),
    ):
        if refused:
            raise wrong(param, f"with dragon.epsilon, {why}")


def seed_or_new(seed: int | None) -> int:
    """The seed, or a new one below 2^53, so that any JSON reader can repeat it."""
    return secrets.randbits(53) if seed is None else seed


def request_for(
    prompt: GenerationRequest, sampling: Sampling, options: AnswerOptions, settings: Settings
) -> GenerationRequest:
    """The request for an answer to a prompt, with the options that say what it may use.

    Raises `InvalidRequestError` for options that contradict each other.
    """
    if options.private and options.cloud not in (None, Cloud.NEVER):
        raise InvalidRequestError(
            f"private: true keeps the answer on the device, cloud: {options.cloud} does not; "
            "leave one of them out",
            param="dragon.cloud",
        )
    return replace(
        prompt,
        sampling=sampling,
        top_k=options.top_k,
        cloud=Cloud.NEVER if options.private else options.cloud or settings.cloud,
        documents=options.documents,
        collections=options.collections,
    )
