"""Model servers that run on this machine, on the ports they usually take."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from app.models.model import Kind, Model
from dragon.localizable import localizable

PORTS = {
    11434: "Ollama",
    1234: "LM Studio",
    8080: "llama-server",
    8000: "vLLM",
    30000: "SGLang",
}
_TIMEOUT_S = 0.5
_OURS = "dragon"
_NO_TOKENIZER = localizable(
    "model.server.tokenizer",
    "Set DRAGON_TOKENIZER to the tokenizer of its model: a directory, a hub name or a .gguf file. "
    "The .gguf files of Ollama and LM Studio serve without their server.",
)


def running() -> Iterator[Model]:
    """The models of the servers that answer, in the order of `PORTS`."""
    with ThreadPoolExecutor(len(PORTS)) as threads:
        for models in threads.map(lambda port: list(_at(port, PORTS[port])), PORTS):
            yield from models


def _at(port: int, usual: str) -> Iterator[Model]:
    status, listed = _asked(port, "/v1/models")
    url = f"http://127.0.0.1:{port}"
    where = localizable("model.where.port", "{name} on port {port}", name=usual, port=str(port))
    if status in (401, 403):
        says = localizable("model.server.key", "It asks for a key: set DRAGON_MODEL_KEY.")
        yield Model(url, Kind.SERVER, where, url, refusal=says)
        return
    data = listed.get("data") if isinstance(listed, dict) else None
    models = [each for each in data if isinstance(each, dict)] if isinstance(data, list) else []
    for each in models:
        if each.get("owned_by") == _OURS:
            continue
        meta = each.get("meta")
        size = meta.get("size") if isinstance(meta, dict) else None
        name = str(each.get("id", ""))
        several = len(models) > 1
        tokenizer = _tokenizer(port, each)
        yield Model(
            *(
                f"{url}#{name}" if several else url,
                Kind.SERVER,
                localizable("model.where.served", "{where}: {name}", where=where, name=name),
                url,
            ),
            size=size if isinstance(size, int) else None,
            hint="" if tokenizer else _NO_TOKENIZER,
            served=name if several else "",
            tokenizer=tokenizer,
        )


def _tokenizer(port: int, listed: dict[str, Any]) -> str:
    """Where the tokenizer of a server's model is, if the server says so: a file or a hub name."""
    if listed.get("owned_by") == "llamacpp":
        _, properties = _asked(port, "/props")
        path = properties.get("model_path") if isinstance(properties, dict) else None
        return path if isinstance(path, str) and Path(path).is_file() else ""
    root = listed.get("root")
    return root if isinstance(root, str) and (Path(root).is_dir() or root.count("/") == 1) else ""


def _asked(port: int, path: str) -> tuple[int, Any]:
    """Status and JSON of a reply; 0 and nothing where there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read(1 << 20))
    except (OSError, http.client.HTTPException, ValueError):
        return 0, None
    finally:
        connection.close()
