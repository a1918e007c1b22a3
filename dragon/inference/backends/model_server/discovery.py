"""Detects what a model server speaks by asking it."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from dragon.errors import ConfigurationError, ModelServerError
from dragon.inference.backends.model_server import dialects
from dragon.inference.backends.model_server.dialects import Dialect, LlamaServer, OpenAIStyle
from dragon.inference.backends.model_server.endpoint import LostError, RefusedError, ServerClient
from dragon.inference.tokenizer import Tokenizer

log = logging.getLogger(__name__)

# How long a server may be busy loading its model.
_LOADING_S = 60.0
# Numbers of likeliest tokens to ask for, until a server grants one.
_LIKELIEST = (256, 100, 20, 5)
_CONTEXT = 4096  # of a server that does not report it
_INSTEAD = (
    "serve the model with llama-server or vLLM, or set DRAGON_MODEL to its .gguf file (those of "
    "Ollama and LM Studio are on the disk)"
)
_SAMPLE = "The quick brown fox jumps over the lazy dog, and"
# How many tokens a server is to decode, and how large a share of names must be the same.
_SAMPLED = 512
_ALIKE = 0.9


def find(endpoint: ServerClient, tokenizer: Tokenizer, name: str | None) -> Dialect:
    """How to ask the server at `endpoint`; `name` is its model if it has several.

    Raises `ConfigurationError`, saying what to change, for a server that cannot be used.
    """
    try:
        dialect = _find(endpoint, tokenizer, name)
    except LostError as error:
        raise ConfigurationError(
            f"DRAGON_MODEL: {error.message}: start the server at {endpoint.url}, or set the URL of "
            "one that runs"
        ) from error
    except ModelServerError as error:
        if isinstance(error, RefusedError) and error.status in (401, 403):
            does = "refuses this key" if endpoint.key else "wants a key"
            raise _unfit(endpoint, does, "DRAGON_MODEL_KEY") from error
        raise ConfigurationError(f"DRAGON_MODEL: {endpoint.url}: {error.message}") from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ConfigurationError(
            f"DRAGON_MODEL: {endpoint.url} does not answer as a model server does ({error!r})"
        ) from error
    if not endpoint.private:
        log.warning(
            "%s is asked without encryption: use https:// beyond this machine", endpoint.url
        )
    found = dialect.model, dialect.likeliest, dialect.context
    log.info("%s runs %s: %d likeliest tokens, context %d", endpoint.url, *found)
    return dialect


def _unfit(endpoint: ServerClient, does: str, setting: str = "DRAGON_MODEL") -> ConfigurationError:
    return ConfigurationError(f"{setting}: the model server at {endpoint.url} {does}")


def _find(endpoint: ServerClient, tokenizer: Tokenizer, name: str | None) -> Dialect:
    try:
        listed = endpoint.ask("GET", "/v1/models", patience=_LOADING_S)
    except RefusedError as error:
        if error.status in (200, 404, 405):
            raise ConfigurationError(
                f"DRAGON_MODEL: {endpoint.url} is no model server: it has no /v1/models"
            ) from error
        raise
    model = _chosen(endpoint, {each["id"]: each for each in listed["data"]}, name)
    tells = same_vocabulary(endpoint, tokenizer, model["id"])
    if tells is False:
        raise _other_vocabulary(endpoint, model["id"])
    if model.get("owned_by") == "llamacpp":
        return _llama_server(endpoint, tokenizer, model)
    return _openai_style(endpoint, tokenizer, model, checked=tells is True)


def _chosen(endpoint: ServerClient, models: dict[str, Any], name: str | None) -> Any:
    names = ", ".join(sorted(models)) or "none"
    if name is not None:
        if name not in models:
            raise _unfit(endpoint, f"has no {name}, but: {names}", "DRAGON_MODEL_NAME")
        return models[name]
    if len(models) != 1:
        raise ConfigurationError(
            f"DRAGON_MODEL_NAME: name one of the models of the server at {endpoint.url}: {names}"
        )
    return next(iter(models.values()))


def _other_vocabulary(endpoint: ServerClient, model: str) -> ConfigurationError:
    does = f"has another vocabulary: name the tokenizer of {model}"
    return _unfit(endpoint, does, "DRAGON_TOKENIZER")


def _llama_server(endpoint: ServerClient, tokenizer: Tokenizer, model: Any) -> Dialect:
    properties = endpoint.ask("GET", "/props", patience=_LOADING_S)
    if (model.get("meta") or {}).get("n_vocab", tokenizer.vocab_size) < tokenizer.vocab_size:
        raise _other_vocabulary(endpoint, model["id"])
    dialect = LlamaServer(
        model=model["id"],
        # One token of it is for the completion.
        context=properties["default_generation_settings"]["n_ctx"] - 1,
        slots=properties["total_slots"],
        letter=tokenizer.encode("a")[0],
    )
    body = dialect.body(tokenizer.encode(_SAMPLE), 1)
    endpoint.ask("POST", dialect.path, {**body, "stream": False}, patience=_LOADING_S)
    return dialect


def _openai_style(
    endpoint: ServerClient, tokenizer: Tokenizer, model: Any, *, checked: bool
) -> OpenAIStyle:
    context = model.get("max_model_len") or model.get("max_context_length") or _CONTEXT
    sample = [*tokenizer.bare_row(raw=True), *tokenizer.encode(_SAMPLE)]
    refused: ModelServerError | None = None
    for takes_ids in (True, False):
        for likeliest in _LIKELIEST:
            dialect = OpenAIStyle(
                model=model["id"],
                context=context - 1,
                likeliest=likeliest,
                tokenizer=tokenizer,
                takes_ids=takes_ids,
            )
            asked = {**dialect.body(sample, 1), "stream": False}
            try:
                reply = endpoint.ask("POST", dialect.path, asked, patience=_LOADING_S)
            except RefusedError as error:
                if error.status in (404, 405):
                    does = f"only chats, and does not continue a text: {_INSTEAD}"
                    raise _unfit(endpoint, does) from error
                if error.status not in (400, 422):
                    raise
                refused = error
                continue
            if (reply.get("usage") or {}).get("prompt_tokens", len(sample)) != len(sample):
                break  # it did not read the ids as tokens
            return _checked(endpoint, dialect, reply, asked, checked=checked)
    why = refused.message if refused else "it reads other tokens"
    raise _unfit(endpoint, f"does not complete a text as it is: {why}; {_INSTEAD}")


def _checked(
    endpoint: ServerClient,
    dialect: OpenAIStyle,
    reply: Any,
    asked: dict[str, Any],
    *,
    checked: bool,
) -> OpenAIStyle:
    """The dialect, once the server is known to name the likeliest tokens of the same vocabulary."""
    choice = reply["choices"][0]
    if not (choice.get("logprobs") or {}).get("top_logprobs"):
        does = "does not name the likeliest tokens (logprobs) of a text"
        raise _unfit(endpoint, f"{does}: {_INSTEAD}")
    names = choice["logprobs"]["top_logprobs"][0]
    by_text = not all(name.startswith(dialects.NUMBERED) for name in names)
    if by_text and not dialect.tokenizer.byte_level:
        does = "names tokens by their text, which two tokens of this tokenizer share"
        raise _unfit(endpoint, f"{does}: {_INSTEAD}")
    whole = [name for name in names if "\ufffd" not in name]
    same = not by_text or (bool(whole) and nearly_all_in(whole, dialect.tokenizer.by_text))
    if same and not checked and dialect.takes_ids:
        # It must read these token ids as it reads their text.
        text = dialect.tokenizer.text_of(asked["prompt"])
        again = endpoint.ask("POST", dialect.path, {**asked, "prompt": text})
        said = again["choices"][0]["logprobs"]["top_logprobs"][0]
        same = nearly_all_in(names, said)
    if not same:
        raise _other_vocabulary(endpoint, dialect.model)
    return dialect


def same_vocabulary(endpoint: ServerClient, tokenizer: Tokenizer, model: str) -> bool | None:
    """Whether the server decodes tokens to the same words; None if it cannot decode.

    Raises `LostError`, `BusyError` and `RefusedError`.
    """
    words = {
        token: text
        for text, token in tokenizer.by_text.items()
        if text[0] == " " and text[1:].isalpha() and text.isascii()
    }
    sampled = sorted(words)[:: max(1, len(words) // _SAMPLED)]
    try:
        reply = endpoint.ask("POST", "/detokenize", {"tokens": sampled, "model": model})
    except RefusedError as error:
        if error.status in (400, 422, 500):  # it lacks a token
            return False
        if error.status in (404, 405, 501):
            return None
        raise
    said = next((reply[name] for name in ("content", "prompt", "text") if name in reply), None)
    if not isinstance(said, str):
        return None
    return said.strip() == "".join(words[token] for token in sampled).strip()


def nearly_all_in(names: Collection[str], others: Collection[str]) -> bool:
    """Whether nearly all names are among the others: near ties may differ at the end."""
    return sum(name in others for name in names) >= _ALIKE * len(names)
