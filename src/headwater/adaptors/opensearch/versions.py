"""The version of a document: the offset of its message, above all versions of earlier logs and other programs.

An offset alone is not enough. A pipeline whose log was deleted begins at 0 again, and the server would silently drop its messages as older
than those of the former log. So the `_meta` of each index's mapping lists the logs that have written to it, in their order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.adaptors.opensearch.client import SearchClient
from headwater.core.errors import BadInput, NotFound

OFFSETS = 44  # bits of the offset; the others of 63 are the log's number, from 1 on, above the server's own versions
KEPT = "headwater"


class Versions:
    """The versions of one sink's documents. `log` is NAME#GENERATION of the pipeline's log."""

    def __init__(self, client: SearchClient, log: str, sink: str) -> None:
        self._client = client
        name, _, self._mark = log.partition("#")
        self._key = f"{name}/{sink}"
        self._numbers: dict[str, int] = {}

    def of(self, index: str, offset: int, *, left: Callable[[], float]) -> int:
        """The version of a message. The first call creates a missing index, within the seconds that are left. Errors: the client's."""
        number = self._numbers.get(index)
        if number is None:
            number = self._numbers[index] = self._number(index, left())
        return (number << OFFSETS) | offset

    def _number(self, index: str, seconds: float) -> int:
        try:
            mappings = self._client.ask("GET", f"/{index}/_mapping", seconds=seconds)
        except NotFound:
            try:
                self._client.ask("PUT", f"/{index}", body={"mappings": {"_meta": self._meta({}, [self._mark])}}, seconds=seconds)
                return 1
            except BadInput as error:
                if "resource_already_exists" not in error.message:
                    raise
                mappings = self._client.ask("GET", f"/{index}/_mapping", seconds=seconds)  # another task has created it meanwhile
        metas = [mapping.get("mappings", {}).get("_meta") or {} for mapping in mappings.values()]
        meta = max(metas, key=lambda candidate: len(self._logs(candidate)), default={})
        logs = self._logs(meta)
        if self._mark not in logs:
            logs = [*logs, self._mark]
            self._client.ask("PUT", f"/{index}/_mapping", body={"_meta": self._meta(meta, logs)}, seconds=seconds)
        return logs.index(self._mark) + 1

    def _logs(self, meta: dict[str, Any]) -> list[str]:
        marks = meta.get(KEPT)
        logs = marks.get(self._key) if isinstance(marks, dict) else None
        return list(logs) if isinstance(logs, list) else []

    def _meta(self, meta: dict[str, Any], logs: list[str]) -> dict[str, Any]:
        marks = meta.get(KEPT)
        return meta | {KEPT: (marks if isinstance(marks, dict) else {}) | {self._key: logs}}
