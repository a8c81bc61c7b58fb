"""The note of a sink's owner in OpenSearch: a document of a hidden index."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, ClassVar
from urllib.parse import quote

from headwater.adaptors.opensearch.client import SearchClient
from headwater.adaptors.owner_note import OwnerNote
from headwater.core.errors import BadInput, Conflict, NotFound

INDEX = ".headwater-owners"
_SETTINGS = {"settings": {"index": {"hidden": True, "number_of_shards": 1}}, "mappings": {"dynamic": False}}


class SearchOwnerNote(OwnerNote):
    """A version is what the server calls the sequence number and the primary term; None: there is no note."""

    rights: ClassVar[str] = f"get, index, create_index and indices:admin/mappings/get on the index {INDEX}"

    def __init__(self, client: SearchClient, pipeline: str, sink: str, index: str) -> None:
        """`index`: the sink's, with `{namespace}` in it."""
        super().__init__(f"OpenSearch at {client.where}", pipeline, sink, target=index)
        self._client = client
        self._id = quote(self.key, safe="")

    def read(self) -> tuple[str, Any]:
        try:
            note = self._client.get(f"/{INDEX}/_doc/{self._id}")
        except NotFound:
            return "", None
        return str(note["_source"].get("claim", "")), {"if_seq_no": note["_seq_no"], "if_primary_term": note["_primary_term"]}

    def replace(self, text: str, version: Any) -> bool:
        way = "_create" if version is None else "_doc"
        if version is None:
            self._make()
        try:
            self._client.ask("PUT", f"/{INDEX}/{way}/{self._id}", params=version, body={"claim": text})
        except Conflict:
            return False
        return True

    def _make(self) -> None:
        with suppress(BadInput):  # it is there: made by another task, or sink
            try:
                self._client.get(f"/{INDEX}/_mapping")
            except NotFound:
                self._client.ask("PUT", f"/{INDEX}", body=_SETTINGS)
