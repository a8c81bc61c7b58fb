"""Reading OpenSearch: each slice of an index is one scroll, in the order of the documents' changes.

The order is that of `_seq_no`, which every change of a document raises: a document that changes during the copy is read late or twice, and
never left out. A slice lies within one shard, where `_seq_no` is unique.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from headwater.adaptors.opensearch.adaptor import OpenSearch
from headwater.adaptors.opensearch.client import SearchClient
from headwater.adaptors.pieces import PieceBuffer, with_floats
from headwater.core.errors import Differs, HeadwaterError, NotFound, Unreachable, Unsupported
from headwater.pipeline import values
from headwater.pipeline.location import Location
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import CopyPlan, Piece, Slice, SourceAdaptor
from headwater.pipeline.source_progress import CopySize

PIECE = 8 << 20
ORDER = [{"_seq_no": "asc"}]


class OpenSearchSource(SourceAdaptor[OpenSearch]):
    """Indices."""

    def check(self, chosen: Namespaces) -> list[str]:
        with self.adaptor.connect() as client:
            return [client.described(), *(f"{name}: {count} documents" for name, count in client.counts(indices(client, chosen)))]

    def locations(self, chosen: Namespaces) -> list[Location]:
        """The indices, by their names and those of their aliases."""
        with self.adaptor.connect() as client:
            system, names = client.system(), indices(client, chosen)
            aliases = client.get("/_cat/aliases", format="json", h="alias,index")
        every = {*names, *(alias["alias"] for alias in aliases if alias["index"] in names)}
        return [Location(system, name) for name in sorted(every)]

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        ids: dict[str, str] = {}
        cut: list[Slice] = []
        with self.adaptor.connect() as client:
            for name in indices(client, chosen):
                client.ask("POST", f"/{name}/_refresh")  # makes everything written so far visible
                ids[name], shards = _settings(client, name)
                # A multiple of the shards: so each slice has documents of one shard only.
                count = max(1, -(-slices // shards)) * shards
                cut += [Slice(name, {"uuid": ids[name], "slice": number, "of": count}) for number in range(count)]
            # An estimate: the index may change before a slice is read.
            size = CopySize.about(sum(count for _, count in client.counts(list(ids))))
        return CopyPlan(identity={"indices": ids}, slices=tuple(cut), ids=dict.fromkeys(ids, ("_id",)), size=size)

    def unit(self, part: Slice) -> tuple[str, Any]:
        return part.namespace, part.spec["uuid"]

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        with self.adaptor.connect() as client:
            try:
                return all(_settings(client, name)[0] == uuid for name, uuid in plan.identity["indices"].items())
            except NotFound:
                return False

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        with self.adaptor.connect() as client:
            pieces = _read(client, part, position, size=self.adaptor.batch, keep=self.adaptor.keep)
            yield from map(with_floats, pieces) if self.adaptor.decimals == "float" else pieces


def indices(client: SearchClient, chosen: Namespaces) -> list[str]:
    """The chosen indices that are open, without hidden ones. Errors: `NotFound` where there is none."""
    entries = client.get("/_cat/indices", format="json", h="index,status")
    names = sorted(entry["index"] for entry in entries if entry["status"] == "open" and not entry["index"].startswith("."))
    names = [name for name in names if name in chosen]
    if not names:
        raise NotFound(f"OpenSearch at {client.where} has no index that {chosen} matches.", hint="See what there is at _cat/indices.")
    return names


def _read(client: SearchClient, part: Slice, position: Any, *, size: int, keep: int) -> Iterator[Piece]:
    uuid, number, count = part.spec["uuid"], part.spec["slice"], part.spec["of"]
    if _settings(client, part.namespace)[0] != uuid:
        raise Differs(f"The index {part.namespace} was created anew since the copy began.", hint="Start the copy anew: offset delete.")
    chosen = {"range": {"_seq_no": {"gt": position}}} if position is not None else {"match_all": {}}
    body: dict[str, Any] = {"query": chosen, "sort": ORDER}
    if count > 1:
        body["slice"] = {"id": number, "max": count}
    gathered = PieceBuffer(PIECE)
    for page in _pages(client, part.namespace, body, size=size, keep=keep):
        for hit in page:
            text = values.store(_document(hit, part.namespace))
            if gathered.exceeded_by(len(text)):
                yield gathered.piece(position)
            gathered.add(text)
            position = hit["sort"][0]
        yield gathered.piece(position)


def all_documents(client: SearchClient, index: str, *, size: int, keep: int) -> Iterator[dict[str, Any]]:
    """All documents of an index; none where it does not exist."""
    try:
        client.ask("POST", f"/{index}/_refresh")
    except NotFound:
        return
    for page in _pages(client, index, {"sort": ["_doc"]}, size=size, keep=keep):
        for hit in page:
            yield _document(hit, index)


def _document(hit: dict[str, Any], index: str) -> dict[str, Any]:
    """The document of a hit. Errors: `Unsupported` for an index without `_source`."""
    document = hit.get("_source")
    if not isinstance(document, dict):
        raise Unsupported(
            f"The index {index} does not keep its documents (_source is disabled).", hint="Copy the system that fills the index."
        )
    return {"_id": hit["_id"]} | document


def _pages(client: SearchClient, index: str, body: dict[str, Any], *, size: int, keep: int) -> Iterator[list[dict[str, Any]]]:
    answer = client.ask("POST", f"/{index}/_search", params={"scroll": f"{int(keep)}ms"}, body=body | {"size": size})
    scroll = answer["_scroll_id"]
    try:
        while True:
            if (failed := answer["_shards"]["failed"]) or answer.get("timed_out"):
                # The server leaves out the documents of such shards and reports success.
                raise Unreachable(f"{failed} shards of {index} at {client.where} did not answer.", hint="Look at _cluster/health.")
            hits = answer["hits"]["hits"]
            if not hits:
                return
            yield hits
            try:
                answer = client.ask("POST", "/_search/scroll", body={"scroll": f"{int(keep)}ms", "scroll_id": scroll})
            except NotFound as error:
                raise Unreachable(
                    f"The scroll over {index} has expired at {client.where}.",
                    hint="Reading resumes behind the last document; a longer keep avoids this.",
                ) from error
            scroll = answer.get("_scroll_id", scroll)
    finally:
        with suppress(HeadwaterError):
            client.ask("DELETE", "/_search/scroll", body={"scroll_id": scroll}, seconds=5.0)


def _settings(client: SearchClient, index: str) -> tuple[str, int]:
    """The UUID of an index, and the number of its shards. Errors: `NotFound`."""
    ((_, entry),) = client.get(f"/{index}/_settings", flat_settings="true").items()
    settings = entry["settings"]
    return settings["index.uuid"], int(settings["index.number_of_shards"])
