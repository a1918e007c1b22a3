"""Model servers running on this machine, on their usual ports."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from app.models.model import Model, ModelKind
from dragon.localizable import localizable

PORTS = {
    11434: "Ollama",
    1234: "LM Studio",
    8080: "llama-server",
    8000: "vLLM",
    30000: "SGLang",
}
Keys = Callable[[str], SecretStr | None]
"""The key for a server, by its URL."""
_TIMEOUT_S = 0.5
_OURS = "dragon"
_CLOSED = (401, 403)
_NO_TOKENIZER = localizable(
    "model.server.tokenizer",
    "Set DRAGON_TOKENIZER to the tokenizer of its model: a directory, a hub name or a .gguf file. "
    "The .gguf files of Ollama and LM Studio serve without their server.",
)


def running(keys: Keys) -> Iterator[Model]:
    """The models of the servers that reply, in the order of `PORTS`."""
    with ThreadPoolExecutor(len(PORTS)) as threads:
        for models in threads.map(lambda port: list(_at(port, PORTS[port], keys)), PORTS):
            yield from models


def _at(port: int, usual: str, keys: Keys) -> Iterator[Model]:
    url = f"http://127.0.0.1:{port}"
    key = None
    status, models, properties = _listed(port, None)
    if status in _CLOSED and (key := keys(url)) is not None:
        status, models, properties = _listed(port, key)
    where = localizable("model.where.port", "{name} on port {port}", name=usual, port=str(port))
    if status in _CLOSED:
        says = (
            localizable("model.server.key.wrong", "It does not accept this key.")
            if key
            else localizable("model.server.key", "It asks for a key: set DRAGON_MODEL_KEY.")
        )
        yield Model(url, ModelKind.SERVER, where, url, refusal=says, wants_key=True)
        return
    for each in models:
        if each.get("owned_by") == _OURS:
            continue
        meta = each.get("meta")
        size = meta.get("size") if isinstance(meta, dict) else None
        name = str(each.get("id", ""))
        several = len(models) > 1
        tokenizer = _tokenizer(each, properties)
        yield Model(
            *(
                f"{url}#{name}" if several else url,
                ModelKind.SERVER,
                localizable("model.where.served", "{where}: {name}", where=where, name=name),
                url,
            ),
            size=size if isinstance(size, int) else None,
            hint="" if tokenizer else _NO_TOKENIZER,
            served=name if several else "",
            tokenizer=tokenizer,
            key=key,
        )


def _listed(port: int, key: SecretStr | None) -> tuple[int, list[dict[str, Any]], Any]:
    """The last status, the models, and llama-server's properties."""
    status, listed = _asked(port, "/v1/models", key)
    data = listed.get("data") if isinstance(listed, dict) else None
    models = [each for each in data if isinstance(each, dict)] if isinstance(data, list) else []
    properties = None
    if any(each.get("owned_by") == "llamacpp" for each in models):
        # It lists its models to anybody, but reveals nothing else without its key.
        status, properties = _asked(port, "/props", key)
    return status, models, properties


def _tokenizer(listed: dict[str, Any], properties: Any) -> str:
    """The file or hub name of the tokenizer of a server's model, if the server says so."""
    if listed.get("owned_by") == "llamacpp":
        path = properties.get("model_path") if isinstance(properties, dict) else None
        return path if isinstance(path, str) and Path(path).is_file() else ""
    root = listed.get("root")
    return root if isinstance(root, str) and (Path(root).is_dir() or root.count("/") == 1) else ""


def _asked(port: int, path: str, key: SecretStr | None) -> tuple[int, Any]:
    """Status and JSON of a reply; 0 and None without one."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        status, body = response.status, response.read(1 << 20)
    except (OSError, http.client.HTTPException):
        return 0, None
    finally:
        connection.close()
    with suppress(ValueError):  # a reply that wants a key need not be JSON
        return status, json.loads(body)
    return status, None
