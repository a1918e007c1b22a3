"""Requests to the routes that write no answer: nothing may be sent for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from bench.lib.mcp_tool import call_tool
from harness.services import Service

_STORE = "Chosen"


@dataclass(frozen=True)
class Unasked:
    """Requests that name a `secret`, about all that the device stores; `model` is its writer."""

    device: Service
    model: str
    secret: str

    def each(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """The name of each kind of request, and a function that makes it."""
        yield "searched", self._searched
        yield "vector store", self._store
        yield "counted", self._counted
        yield "documents, opened", self._opened
        yield "kept, read", self._kept
        yield "MCP, searched", self._tools

    @contextmanager
    def _client(self) -> Iterator[httpx.Client]:
        def checked(reply: httpx.Response) -> None:
            reply.raise_for_status()

        device, hooks = self.device, {"response": [checked]}
        with httpx.Client(
            base_url=device.url, headers=device.headers, timeout=300, event_hooks=hooks
        ) as client:
            yield client

    def _searched(self) -> None:
        """Searches, ranks, embeds."""
        with self._client() as client:
            models = [each["id"] for each in client.get("/v1/models").json()["data"]]
            embedder = next(each for each in models if each not in (self.model, "reranker"))
            embedded = {"model": embedder, "input": self.secret}
            client.post("/v1/search", json={"query": self.secret})
            client.post("/v1/rerank", json={"query": self.secret, "documents": [self.secret]})
            client.post("/v1/embeddings", json=embedded)
            client.post("/api/embed", json=embedded)
            client.post("/api/embeddings", json={"model": embedder, "prompt": self.secret})

    def _store(self) -> None:
        """Puts a batch of files into a vector store, searches it, and deletes it."""
        with self._client() as client:
            files = [each["id"] for each in client.get("/v1/files").json()["data"]]
            store = client.post("/v1/vector_stores", json={"name": _STORE}).json()["id"]
            url = f"/v1/vector_stores/{store}"
            client.post(f"{url}/file_batches", json={"file_ids": files[:2]})
            client.post(f"{url}/search", json={"query": self.secret})
            client.delete(url)

    def _counted(self) -> None:
        """Counts the tokens of a chat."""
        chat = {"model": self.model, "messages": [{"role": "user", "content": self.secret}]}
        with self._client() as client:
            tokens = client.post("/tokenize", json=chat).json()["tokens"]
            client.post("/detokenize", json={"model": self.model, "tokens": tokens})
            client.post("/v1/messages/count_tokens", json=chat)

    def _opened(self) -> None:
        """Opens documents, as text and as rendered pages."""
        with self._client() as client:
            for file in client.get("/v1/files").json()["data"]:
                place = {"start": 0, "end": 1000, "mark": 0, "until": 50}
                seen = client.get(f"/api/documents/{file['id']}/view", params=place).json()
                if seen["pages"]:
                    page = {"number": 1, "mark": 0, "until": 50}
                    client.get(f"/api/documents/{file['id']}/page", params=page)

    def _kept(self) -> None:
        """Reads and exports chats and the ledger; lists models."""
        with self._client() as client:
            client.get("/api/conversations", params={"search": self.secret})
            for chat in client.get("/api/conversations").json()["data"][:2]:
                for form in ("markdown", "json"):
                    client.get(f"/api/conversations/{chat['id']}/export", params={"as": form})
            client.get("/api/ledger/export")
            client.get("/api/models")
            client.get("/api/models/offers")

    def _tools(self) -> None:
        """Searches as an assistant does."""
        call_tool(self.device, "search_documents", {"query": self.secret})
        call_tool(self.device, "list_documents", {})
