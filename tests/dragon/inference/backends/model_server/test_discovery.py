"""What a model server speaks, and the sentence for one that is of no use."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pydantic import SecretStr

from dragon.errors import ConfigurationError
from dragon.inference.backends.model_server import discovery
from dragon.inference.backends.model_server.dialects import OpenAIStyle
from dragon.inference.backends.model_server.endpoint import ServerClient
from dragon.inference.choice import ModelChoice
from dragon.inference.tokenizer import Tokenizer
from harness import services
from harness.faults.openai_server import Behaviour, Served, serving
from harness.models import SMALL_MODEL
from harness.services import Service

INSTEAD = (
    "serve the model with llama-server or vLLM, or set DRAGON_MODEL to its .gguf file (those of "
    "Ollama and LM Studio are on the disk)"
)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A tokenizer of as many tokens, of which most are others."""
    folder = tmp_path_factory.mktemp("other")
    for file in SMALL_MODEL.glob("tokenizer*"):
        content = json.loads(file.read_text(encoding="utf-8"))
        if file.name == "tokenizer.json":
            vocab = content["model"]["vocab"]
            words = [piece for piece, number in vocab.items() if number >= 512]
            vocab |= {
                piece: vocab[word] for piece, word in zip(words, words[1:] + words[:1], strict=True)
            }
        (folder / file.name).write_text(json.dumps(content), encoding="utf-8")
    return Tokenizer.load(folder)


def refused(url: str, tokenizer: Tokenizer, name: str | None = None, key: str | None = None) -> str:
    """The sentence that a person gets, with URL in place of the server's."""
    with pytest.raises(ConfigurationError) as caught:
        discovery.find(ServerClient(url, key), tokenizer, name)
    return caught.value.message.replace(url, "URL")


@pytest.mark.parametrize(("most", "likeliest"), [(4096, 256), (100, 100), (20, 20), (7, 5)])
def test_as_many_likeliest_tokens_as_it_gives(
    served: Served, tokenizer: Tokenizer, most: int, likeliest: int
) -> None:
    with serving(served, Behaviour(most=most)) as url:
        dialect = discovery.find(ServerClient(url + "/v1/", None), tokenizer, None)
    assert dialect.likeliest == likeliest
    assert dialect.context == served.context - 1


@pytest.mark.parametrize("takes_ids", [True, False])
def test_token_ids_where_they_are_taken(
    served: Served, tokenizer: Tokenizer, takes_ids: bool
) -> None:
    with serving(served, Behaviour(takes_ids=takes_ids)) as url:
        dialect = discovery.find(ServerClient(url, None), tokenizer, None)
    assert isinstance(dialect, OpenAIStyle)
    assert dialect.takes_ids == takes_ids


def test_llama_server_tells_its_slots_and_context(
    llama_server: Service, tokenizer: Tokenizer
) -> None:
    dialect = discovery.find(ServerClient(llama_server.url, "sesame"), tokenizer, None)
    assert (dialect.path, dialect.slots, dialect.likeliest) == ("/completion", 4, 256)


def test_the_same_vocabulary_has_one_fingerprint(
    llama_server: Service, tokenizer: Tokenizer, embedded_gguf: Path
) -> None:
    """Whatever says it; the server agrees with each."""
    for named in (SMALL_MODEL, SMALL_MODEL / "tokenizer.json", embedded_gguf):
        choice = ModelChoice(
            model=llama_server.url, model_key=SecretStr("sesame"), tokenizer=str(named)
        )
        found, model = choice.load()
        model.close()
        assert found.fingerprint == tokenizer.fingerprint == Tokenizer.load(named).fingerprint


def test_one_that_loads_its_model_is_waited_for(served: Served, tokenizer: Tokenizer) -> None:
    behaviour = Behaviour(statuses=[(503, {}), (503, {"Retry-After": "0.1"})])
    with serving(served, behaviour) as url:
        discovery.find(ServerClient(url, None), tokenizer, None)
    assert behaviour.statuses == []


def test_nobody_listens(tokenizer: Tokenizer) -> None:
    assert refused(f"http://127.0.0.1:{services.free_port()}", tokenizer) == (
        "DRAGON_MODEL: the model server cannot be reached: Connection refused: start "
        "the server at URL, or set the URL of one that runs"
    )


def test_no_model_server(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with files(tmp_path) as url:
        assert refused(url, tokenizer) == (
            "DRAGON_MODEL: URL is no model server: it has no /v1/models"
        )


@contextmanager
def files(folder: Path) -> Iterator[str]:
    """A server of files, which knows nothing of models."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(("key", "does"), [(None, "wants a key"), ("wrong", "refuses this key")])
def test_a_wrong_key(
    served: Served, llama_server: Service, tokenizer: Tokenizer, key: str | None, does: str
) -> None:
    sentence = f"DRAGON_MODEL_KEY: the model server at URL {does}"
    with serving(served, Behaviour(key="sesame")) as url:
        assert refused(url, tokenizer, key=key) == sentence
        assert discovery.find(ServerClient(url, "sesame"), tokenizer, None)
    assert refused(llama_server.url, tokenizer, key=key) == sentence


def test_several_models(served: Served, tokenizer: Tokenizer) -> None:
    with serving(served, Behaviour(models=("one", "two"))) as url:
        assert refused(url, tokenizer) == (
            "DRAGON_MODEL_NAME: name one of the models of the server at URL: one, two"
        )
        assert refused(url, tokenizer, "three") == (
            "DRAGON_MODEL_NAME: the model server at URL has no three, but: one, two"
        )
        assert discovery.find(ServerClient(url, None), tokenizer, "two").model == "two"


@pytest.mark.parametrize(
    ("behaviour", "does"),
    [
        (Behaviour(completes=False), "only chats, and does not continue a text: "),
        (Behaviour(logprobs=False), "does not name the likeliest tokens (logprobs) of a text: "),
        (
            Behaviour(most=0),
            "does not complete a text as it is: the model server refuses the request "
            "(400 greater than max allowed: 0); ",
        ),
    ],
    ids=["chats", "no likeliest", "refuses"],
)
def test_one_that_is_of_no_use(
    served: Served, tokenizer: Tokenizer, behaviour: Behaviour, does: str
) -> None:
    with serving(served, behaviour) as url:
        assert refused(url, tokenizer) == f"DRAGON_MODEL: the model server at URL {does}{INSTEAD}"


@pytest.mark.parametrize(
    "behaviour",
    [
        Behaviour(),
        Behaviour(detokenizes=False),
        Behaviour(detokenizes=False, names_ids=False),
    ],
    ids=["detokenize", "names", "texts"],
)
def test_another_vocabulary(served: Served, other: Tokenizer, behaviour: Behaviour) -> None:
    with serving(served, behaviour) as url:
        assert refused(url, other) == (
            "DRAGON_TOKENIZER: the model server at URL has another vocabulary: name the tokenizer "
            "of dragon-7m"
        )


def test_another_vocabulary_at_llama_server(llama_server: Service, other: Tokenizer) -> None:
    assert "URL has another vocabulary" in refused(llama_server.url, other, key="sesame")
