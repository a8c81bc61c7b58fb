"""The pipelines of a server, over HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar, get_origin
from urllib.parse import quote

import msgspec

from headwater.client.pipeline_addresses import ADDRESSES, QUERY_NAMES
from headwater.client.pipelines import Asked, check
from headwater.client.remote import RemoteLog
from headwater.pipeline.operating import answers
from headwater.pipeline.operating.answers import written
from headwater.pipeline.values import exact, extended

T = TypeVar("T")


_LONG = frozenset({"step", "replay", "retry", "compact", "verify"})  # as long as it takes


class _List(msgspec.Struct):
    items: list[msgspec.Raw]
    next: str | None = None


_page = msgspec.json.Decoder(_List)


class RemotePipelines(Asked):
    """Speaks through the connections of the server's log."""

    def __init__(self, log: RemoteLog) -> None:
        self._log = log

    async def every(self) -> list[answers.Status]:
        return await self._all("/pipelines", list[answers.Status], {})

    async def ask(self, pipeline: str, verb: str, kind: type[T], arguments: Mapping[str, Any]) -> T:
        check(pipeline, arguments)
        address = ADDRESSES[verb]
        named = {name: quote(str(value), safe="") for name, value in {**arguments, "name": pipeline}.items()}
        inside = set(re.findall(r"{(\w+)}", address.path))
        rest = {name: value for name, value in arguments.items() if name not in inside and value is not None}
        query = {"dry_run": "true"} if rest.pop("dry_run", False) else {}
        parts: dict[str, Any] = {"timeout": None} if verb in _LONG else {}
        if address.method in ("PUT", "POST"):
            parts |= {"content": written(extended(rest)), "headers": {"Content-Type": "application/json"}}
        else:
            query |= {QUERY_NAMES.get(name, name): value for name, value in rest.items()}
        path = address.path.format(**named)
        if get_origin(kind) is list:
            return await self._all(path, kind, query)
        answer = await self._log.ask(address.method, path, params=query, **parts)
        return self._log.understood(address.method, path, msgspec.json.Decoder(kind, float_hook=exact).decode, answer)

    async def _all(self, path: str, kind: type[T], query: dict[str, Any]) -> T:
        """A list, page by page."""
        found: list[msgspec.Raw] = []
        while True:
            page = self._log.understood("GET", path, _page.decode, await self._log.ask("GET", path, params=query))
            found += page.items
            if page.next is None:
                return self._log.understood("GET", path, msgspec.json.Decoder(kind, float_hook=exact).decode, msgspec.json.encode(found))
            query = {**query, "cursor": page.next}
