"""The protocol's server in process: nothing is given that the ledger cannot record."""

from __future__ import annotations

import errno

import pytest
from mcp import Client, MCPError

from app.api.mcp.server import build
from app.container import AppState
from app.ledger.writer import ProgramRead


async def test_while_the_ledger_cannot_be_written_nothing_is_given(
    state: AppState, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: ProgramRead) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(state.ledger, "read", fail)
    async with Client(build(state)) as client:
        result = await client.call_tool("list_documents", {})
        assert (result.is_error, result.structured_content) == (True, None)
        assert "cannot read or write its disk now" in str(result.content)
        with pytest.raises(MCPError, match="cannot read or write its disk now"):
            await client.list_resources()
