"""Assistants that speak MCP: the SDK's own client, over HTTP and stdio, against a real device.

Covers `app.api.mcp.server` and `cli.running_device`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp_types import TextContent, TextResourceContents

from harness.network_emulator import relay
from harness.services import KEY, ROOT, Service, free_port
from tests.contract.asking import dragon, upload
from tests.contract.assistant import ABOUT, over_http
from tests.contract.conftest import Pair

pytestmark = pytest.mark.services

NOTE = "The wine cellar in Soave opens with the brass key number 4471-Q.\nIt is damp there.\n"
QUESTION = "Which key opens the wine cellar in Soave?"
WAYS = ["http", "http before 2026", "stdio"]


@asynccontextmanager
async def over_stdio(port: int, directory: Path, key: str = KEY) -> AsyncIterator[Client]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    env |= {"DRAGON_PORT": str(port), "DRAGON_API_KEY": key}
    started = StdioServerParameters(
        command=sys.executable, args=["-m", "cli", "mcp"], env=env, cwd=directory
    )
    async with Client(stdio_client(started), client_info=ABOUT) as client:
        yield client


@asynccontextmanager
async def reached(way: str, device: Service, directory: Path) -> AsyncIterator[Client]:
    async with (
        over_stdio(device.port, directory)
        if way == "stdio"
        else over_http(device.url, device.headers, "auto" if way == "http" else "legacy")
    ) as client:
        yield client


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content
    return found


async def refused(client: Client, name: str, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    assert result.is_error
    (said,) = result.content
    assert isinstance(said, TextContent)
    return said.text


def ledger(device: Service, path: str = "") -> Any:
    url = f"{device.url}/api/ledger{path}"
    return httpx.get(url, headers=device.headers, timeout=60, verify=False).json()


def last_read(device: Service) -> dict[str, Any]:
    found: dict[str, Any] = ledger(device, "/reads?limit=1")["data"][0]
    return found


@pytest.fixture
def note(exact: Pair) -> str:
    return upload(exact.device, "soave.txt", NOTE)


@pytest.mark.parametrize("way", WAYS)
async def test_an_assistant_finds_reads_and_asks(
    way: str, exact: Pair, note: str, tmp_path: Path
) -> None:
    async with reached(way, exact.device, tmp_path) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {"search_documents", "ask", "list_documents", "read_passage"}

        (hit,) = (await call(client, "search_documents", query=QUESTION, top_k=1))["data"]
        assert (hit["document"], hit["text"] in NOTE) == (note, True)
        place = {"document": note, "start": hit["start"], "end": hit["end"]}
        read = last_read(exact.device)
        assert (read["reader"], read["tool"]) == ("assistant 1.2", "search_documents")
        assert read["passages"] == [place]

        part = await call(client, "read_passage", document=note, start=4, length=11)
        assert part["text"] == NOTE[4:15]
        assert last_read(exact.device)["passages"] == [{"document": note, "start": 4, "end": 15}]

        listed = await call(client, "list_documents", limit=1)
        assert (listed["data"][0]["filename"], listed["has_more"]) == ("soave.txt", True)
        assert last_read(exact.device)["tool"] == "list_documents"

        answer = await call(client, "ask", question=QUESTION, private=True)
        assert "4471-Q" in answer["text"]
        assert [source["title"] for source in answer["sources"]] == ["soave.txt"]
        read = last_read(exact.device)
        assert (read["tool"], read["answer"]) == ("ask", answer["ledger"])
        assert [passage["document"] for passage in read["passages"]] == [note]
        if way == "stdio":  # whose program takes seconds to start
            await check_resources(client, exact.device, note)


async def test_documents_are_resources(exact: Pair, note: str) -> None:
    async with over_http(exact.device.url, exact.device.headers) as client:
        await check_resources(client, exact.device, note)


async def check_resources(client: Client, device: Service, note: str) -> None:
    found = await client.list_resources()
    (uri,) = (each.uri for each in found.resources if each.name == "soave.txt")
    (template,) = (await client.list_resource_templates()).resource_templates
    assert template.uri_template.replace("{id}", note) == uri
    (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, TextResourceContents)
    assert contents.text == NOTE
    read = last_read(device)
    assert (read["tool"], read["bytes"]) == ("read_resource", len(NOTE.encode()))
    with pytest.raises(MCPError, match="There is no file 'nothing'"):
        await client.read_resource("dragon://documents/nothing")


async def test_the_ladder_holds_for_assistants_too(exact: Pair) -> None:
    question = "What is the currency of Vietnam?"
    said = {}
    async with over_http(exact.device.url, exact.device.headers) as client:
        for name, rung in (("private", {"private": True}), ("always", {"cloud": "always"})):
            answer = await call(client, "ask", question=question, **rung)
            said[name] = ledger(exact.device, f"/{answer['ledger']}")
    assert (said["private"]["left"], said["private"]["frames"]) == ("Nothing left this device", [])
    assert said["always"]["left"].startswith("Your question")
    assert said["always"]["frames"]


def delete(device: Service, document: str) -> None:
    url = f"{device.url}/v1/files/{document}"
    httpx.delete(url, headers=device.headers, timeout=60).raise_for_status()


def verified(device: Service) -> str:
    done = dragon("ledger", "verify", DRAGON_DATA_DIR=str(device.data))
    return done.stdout + done.stderr


async def test_deleting_a_document_erases_who_read_it(exact: Pair, note: str) -> None:
    async with over_http(exact.device.url, exact.device.headers) as client:
        await call(client, "read_passage", document=note)
    assert last_read(exact.device)["passages"] != []
    delete(exact.device, note)
    assert last_read(exact.device)["passages"] is None
    assert "the chain holds" in verified(exact.device)


async def test_what_is_wrong_is_said(exact: Pair) -> None:
    async with over_http(exact.device.url, exact.device.headers) as client:
        assert await refused(client, "read_passage") == "Missing required parameter: document"
        assert "top_k" in await refused(client, "search_documents", query="x", top_k=0)
        assert "no file 'x'" in await refused(
            client, "search_documents", query="x", documents=["x"]
        )
        assert "private: true" in await refused(
            client, "ask", question="x", private=True, cloud="always"
        )
        assert "There is no tool 'forget'" in await refused(client, "forget")


async def test_without_a_device_and_with_a_wrong_key(exact: Pair, tmp_path: Path) -> None:
    for port, key, said in (
        (free_port(), KEY, "start it with `dragon up`"),
        (exact.device.port, "wrong", "Incorrect API key"),
    ):
        async with over_stdio(port, tmp_path, key) as client:
            with pytest.raises(MCPError, match=said):
                await client.list_tools()


async def test_a_lost_device_is_said_and_found_again(exact: Pair, tmp_path: Path) -> None:
    with relay(exact.device.port) as network:
        async with over_stdio(network.port, tmp_path) as client:
            await client.list_tools()
            network.limit(8_000)  # in the middle of the question
            with pytest.raises(MCPError, match="ended the connection"):
                await client.call_tool("ask", {"question": "word " * 3_000})
            assert (await call(client, "list_documents", limit=1))["data"]
