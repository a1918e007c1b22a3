"""Calls one of the device's tools as an assistant does."""

from __future__ import annotations

import json
from typing import Any

import httpx

from harness.services import Service

_BEGUN = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "assistant", "version": "1"},
}


def call_tool(device: Service, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool in a session of its own, and return its structured result."""
    accepted = {"Accept": "application/json, text/event-stream", **device.headers}
    called = {"name": name, "arguments": arguments}
    with httpx.Client(base_url=device.url, headers=accepted, timeout=300) as client:
        begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _BEGUN}
        reply = client.post("/mcp", json=begin).raise_for_status()
        session = {"Mcp-Session-Id": reply.headers["Mcp-Session-Id"]}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        client.post("/mcp", json=ready, headers=session).raise_for_status()
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called}
        reply = client.post("/mcp", json=call, headers=session).raise_for_status()
    said = next(line[6:] for line in reply.text.splitlines() if line.startswith("data: {"))
    result: dict[str, Any] = json.loads(said)["result"]["structuredContent"]
    return result
