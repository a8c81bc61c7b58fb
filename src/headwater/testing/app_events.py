"""A client of an application's event streams, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.types import ASGIApp, Message

from headwater.testing.log_ground import PATIENCE


class AppEvents:
    """Follows one address until the first event of the name `last`, and then goes away. `found` grows meanwhile."""

    def __init__(self, app: ASGIApp, address: str, last: str, headers: Mapping[str, str]) -> None:
        self._app, self._address, self._last, self._headers = app, address, last, headers
        self._text, self._seen, self._asked = "", asyncio.Event(), False

    async def run(self) -> list[dict[str, Any]]:
        """All events. Errors: `TimeoutError` where the last one does not come."""
        path, _, query = self._address.partition("?")
        sent = [(b"host", b"server"), (b"accept", b"text/event-stream")]
        sent += [(name.replace("_", "-").lower().encode(), value.encode()) for name, value in self._headers.items()]
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http", "path": path,
            "root_path": "", "raw_path": path.encode(), "query_string": query.encode(), "headers": sent, "client": ("127.0.0.1", 1),
            "server": ("server", 80),
        }  # fmt: skip
        async with asyncio.timeout(PATIENCE):
            await self._app(scope, self._receive, self._send)
        return self.found

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._seen.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self._text += message.get("body", b"").decode()
        if self.has(self._last) and self._text.endswith("\n\n"):
            self._seen.set()

    def has(self, name: str) -> bool:
        """Whether an event of this name has come."""
        return f"event: {name}\n" in self._text

    @property
    def found(self) -> list[dict[str, Any]]:
        """The events so far: name, id and data."""
        events: list[dict[str, Any]] = []
        for block in self._text.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
            if "event" in fields:
                events.append({"event": fields["event"], "id": fields.get("id", ""), **msgspec.json.decode(fields.get("data", "{}"))})
        return events
