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
    RenderedBody,
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
_GIVEN = {
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty",
    "frequency_penalty",
}  # fmt: skip


async def chat_requests(
    body: ChatBody, state: AppState, format_param: str = "response_format"
) -> list[GenerationRequest]:
    """A generation for each choice of a chat, with the cloud's view of it.

    A limit that exceeds the context becomes the default one. `format_param` is what the client
    calls `response_format`.
    """
    messages = as_messages(body.messages)
    tools, form = offered(body, state.generation.tokenizer, messages)
    rendering = rendering_of(body, messages, tools, state.generation.tokenizer)
    if body.truncation == "auto":
        messages = await shortened(state.generation, messages, rendering, body.limit or 1)
    asked = body.dragon.cloud if body.dragon else None
    trusted = (asked or state.settings.cloud) is Cloud.ALWAYS
    view = await state.generation.cloud_view.of(messages, trusted=trusted)
    cut = body.truncate_prompt_tokens is not None
    prompt = await chat_prompt(state.generation, messages, view, rendering, to_cut=cut)
    held = partial(_held, body, tools, form, format_param)
    requests = requests_of(body, [prompt], state, await checked(held, state, raw=False))
    # Many clients set a limit for a much larger model: it is only an upper bound.
    room = state.generation.room
    return [
        replace(each, max_tokens=None) if len(each.conversation) > room(each) else each
        for each in requests
    ]


def rendering_of(
    body: RenderedBody, messages: Sequence[Message], tools: Sequence[Tool], tokenizer: Tokenizer
) -> Rendering:
    """How the template renders a chat: by default it continues a last turn of the assistant.

    Raises `InvalidRequestError` if both that and a new turn are requested, or there is no such
    turn.
    """
    speaks = messages[-1].role == "assistant" and not messages[-1].calls
    continued, added = body.continue_final_message, body.add_generation_prompt
    if continued and added:
        raise wrong("continue_final_message", "contradicts add_generation_prompt; send one of them")
    if continued and not speaks:
        raise wrong("continue_final_message", "the last message is not the assistant's")
    if continued is None:
        continued = speaks and not added
    effort, thinks = body.reasoning_effort, body.enable_thinking
    if thinks is None and effort is not None:
        thinks = effort != "none"
    asked = {"enable_thinking": thinks, "thinking": thinks, "reasoning_effort": effort}
    known = {name: asked[name] for name in tokenizer.variables if asked[name] is not None}
    variables = known | (body.chat_template_kwargs or {})
    return Rendering(tuple(tools), variables, continued=continued, begun=added is not False)


def reading_of(body: ChatBody, request: GenerationRequest, tokenizer: Tokenizer) -> Reading:
    """How to read the answer to a chat: whether it may contain calls or begin with reasoning."""
    end = tokenizer.decode(request.conversation[-_END:], special=True).rstrip()
    # An answer held to a grammar does not begin inside reasoning.
    return Reading(
        tokenizer.call_form if body.may_call else None,
        reasons=tokenizer.reasons,
        begun=end.endswith(BEGIN) and not request.sampling.grammar,
    )


def offered(
    body: RenderedBody, tokenizer: Tokenizer, messages: Sequence[Message]
) -> tuple[list[Tool], CallFormat | None]:
    """The tools that the model may call, and how it writes calls; None if it may call none.

    Raises `InvalidRequestError` for a model whose chat template has no tools, even if only the
    messages have calls, and for a choice that is not among the tools.
    """
    choice, form = body.tool_choice, tokenizer.call_form
    if not body.tools and choice not in (None, "none", "auto"):
        raise wrong("tool_choice", "there are no tools")
    called = any(message.calls or message.role == "tool" for message in messages)
    if form is None and (body.may_call or called):
        raise wrong(
            "tools" if body.may_call else "messages",
            "this model's chat template has no tools, or calls them in a form that is not known "
            'here; use another model, or send tool_choice "none" and no calls',
        )
    if not body.may_call:
        return [], None
    tools = [each.tool() for each in body.tools]
    if isinstance(choice, NamedTool) and choice.function.name not in {t.name for t in tools}:
        raise wrong("tool_choice", f"there is no tool {choice.function.name!r}")
    return tools, form


def _held(
    body: ChatBody, tools: Sequence[Tool], form: CallFormat | None, format_param: str
) -> tuple[str, str]:
    """The grammar of a chat's answer, and the parameter that sets it; see `held_to`."""
    text, param = body.grammar(format_param)
    if form is None:
        return text, param
    if text:
        raise wrong(param, 'contradicts tools; send tool_choice "none" with it')
    choice, parallel = body.tool_choice, body.parallel_tool_calls is not False
    if isinstance(choice, NamedTool):
        tools, parallel = [each for each in tools if each.name == choice.function.name], False
    elif choice != "required":
        return "", "tools"
    return form.grammar(tools, parallel=parallel), "tools"


async def completion_requests(
    body: CompletionBody, state: AppState, format_param: str = "response_format"
) -> list[GenerationRequest]:
    """A generation for each choice of each prompt of a completion; as in `chat_requests`."""
    cut = body.truncate_prompt_tokens is not None
    prompts = [
        await text_prompt(state.generation, each, body.suffix or "", to_cut=cut)
        for each in body.prompt
    ]
    grammar = await checked(partial(body.grammar, format_param), state, raw=True)
    requests = requests_of(body, prompts, state, grammar)
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
            raw=isinstance(body, CompletionBody),
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
    quotes = state.generation.quotes_alone and not isinstance(body, CompletionBody)
    if body.least_tokens and quotes:
        raise wrong(param, "this model quotes whole sentences and ends with them; leave it out")
    if body.least_tokens and grammar:
        raise wrong(param, "the format determines where an answer ends")
    if body.limit is not None and (body.min_tokens or 0) > body.limit:
        raise wrong("min_tokens", f"{body.min_tokens} exceeds the limit of {body.limit}")
    bounded = body.dragon is not None and body.dragon.epsilon is not None
    sampling = Sampling(
        seed=seed_or_new(body.seed),
        logit_bias=bias,
        min_tokens=body.least_tokens,
        grammar=grammar,
        **_usual(state.generation.default_sampling, mode, bounded=bounded),
    )
    return replace(sampling, **body.model_dump(include=_GIVEN, exclude_none=True))


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
