"""Writing to OpenSearch: bulk requests, whose responses are evaluated item by item."""

from __future__ import annotations

import base64
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any, Literal
from uuid import UUID

import msgspec

from headwater.adaptors.converting_writer import ConvertingWriter, as_unreachable, blaming_no_message, identity_of, made_id
from headwater.adaptors.opensearch.adaptor import OpenSearch
from headwater.adaptors.opensearch.client import BulkFailure, SearchClient, explained
from headwater.adaptors.opensearch.owner import SearchOwnerNote
from headwater.adaptors.opensearch.source import all_documents
from headwater.adaptors.opensearch.versions import Versions
from headwater.adaptors.pieces import portions
from headwater.core.errors import BadInput, Denied, DiskFull, NotFound, Rejected, Timeout, Unavailable, Unreachable
from headwater.pipeline import values
from headwater.pipeline.claim import SinkClaim
from headwater.pipeline.location import Location
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Part, SinkAdaptor, SinkWriter

LONGEST_ID = 512  # bytes; the server refuses the whole request for a longer one
ACTION = 200  # bytes, about, of an item besides its document
_CURRENT = re.compile(r"current version \[(\d+)\]")
_PLAIN = frozenset({str, int, bool, type(None)})  # most values by far
NO_TIME = "there was no time left to ask"
PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds between two tries while the cluster is busy


class BulkItem(msgspec.Struct, frozen=True):
    """One action of a bulk request."""

    offset: int
    action: Literal["index", "delete"]
    where: dict[str, Any]
    document: bytes = b""

    @property
    def lines(self) -> bytes:
        return values.encode({self.action: self.where}) + b"\n" + (self.document + b"\n" if self.action == "index" else b"")

    @property
    def key(self) -> tuple[str, str]:
        """The index and id of the document."""
        return self.where["_index"], self.where["_id"]

    def raised(self, version: int) -> BulkItem:
        """The same with the version of the stored document, so that a replay overwrites it."""
        return msgspec.structs.replace(self, where=self.where | {"version": version})


class OpenSearchSink(SinkAdaptor[OpenSearch]):
    """Indices, which the server creates when they are needed."""

    def check(self, chosen: Namespaces) -> list[str]:
        with self.adaptor.connect() as client:
            return [client.described()]

    def writer(self, part: Part) -> SinkWriter:
        client = self.adaptor.connect()
        try:
            self._note(client, part.pipeline, part.sink).check(part.epoch)  # reports a wrong URI, too, before the first message
        except BaseException:
            client.close()
            raise
        return OpenSearchWriter(self.adaptor, part, client)

    def owner(self, pipeline: str, sink: str) -> SinkClaim | None:
        with self.adaptor.connect() as client:
            return self._note(client, pipeline, sink).owner()

    def claim(self, mine: SinkClaim, former: SinkClaim | None = None) -> bool:
        with self.adaptor.connect() as client:
            self._note(client, mine.pipeline, mine.sink).claim(mine, former)
        return True

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        document = values.decode(values.encode(plain({name: value for name, value in data.items() if name != "_id"})))
        return row(id_text(data["_id"]), document) if data.get("_id") is not None else document

    def identified(self, message: Message, pipeline: str) -> tuple[Any, dict[str, Any]]:
        if message.id is None:
            identity = made_id(pipeline, message)
            return identity, message.data | {"_id": identity}
        return id_text(message.id), message.data

    def place(self, namespace: str) -> str:
        return self.adaptor.index_for(namespace)

    def overlaps(self, reads: Sequence[Location]) -> list[Location]:
        with self.adaptor.connect() as client:
            system = client.system()
        return [place for place in reads if place.system == system]

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        """The documents of the namespace's index, in no order: with `_id` as text, unless it repeats other fields."""
        adaptor = self.adaptor
        with adaptor.connect() as client:
            for document in all_documents(client, adaptor.index_for(namespace), size=adaptor.batch, keep=adaptor.keep):
                yield row(document.pop("_id"), document)

    def _note(self, client: SearchClient, pipeline: str, sink: str) -> SearchOwnerNote:
        return SearchOwnerNote(client, pipeline, sink, self.adaptor.place("{namespace}"))


class OpenSearchWriter(ConvertingWriter[BulkItem]):
    """Sends items again that the cluster was too busy for, with all behind them, until the batch's timeout."""

    def __init__(
        self,
        adaptor: OpenSearch,
        part: Part,
        client: SearchClient,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(part, f"OpenSearch at {client.where}", clock=clock)
        self._adaptor, self._client, self._wait = adaptor, client, wait
        self._indices: dict[str, str] = {}  # by namespace
        self._versions = Versions(client, part.pipeline, part.sink) if adaptor.versions else None

    def send(self, converted: Sequence[BulkItem]) -> None:
        for items in portions(converted, lambda item: len(item.document) + ACTION, self._adaptor.body):
            self._send(items)

    def close(self) -> None:
        self._client.close()

    def convert(self, message: Message) -> BulkItem:
        message_id = identity_of(message, "OpenSearch")
        text = made_id(self._part.pipeline, message) if message_id is None else id_text(message_id)
        if not text or len(text.encode()) > LONGEST_ID:
            raise BadInput(
                f"The id {text[:40]!r}... has {len(text.encode())} bytes; OpenSearch takes 1 to {LONGEST_ID}.", hint="Shorten it."
            )
        index = self._indices.get(message.namespace)
        if index is None:
            index = self._indices[message.namespace] = self._adaptor.index_for(message.namespace)
        where: dict[str, Any] = {"_index": index, "_id": text}
        if self._versions is not None:
            where |= {"version": self._version(index, message.offset), "version_type": "external_gte"}
        if message.op is Op.DELETE:
            return BulkItem(message.offset, "delete", where)
        data = message.data
        if message.id_fields == ("_id",) and "_id" in data:
            data = {name: value for name, value in data.items() if name != "_id"}  # the server refuses a field of this name
        return BulkItem(message.offset, "index", where, values.encode(plain(data)))

    def _version(self, index: str, offset: int) -> int:
        assert self._versions is not None
        try:
            with blaming_no_message(Denied, NotFound):
                return self._versions.of(index, offset, left=lambda: self.left(NO_TIME))
        except Timeout as error:
            raise self.late("no answer about an index") from error

    def _send(self, items: list[BulkItem]) -> None:
        """Write all of them durably. Errors: that of the first refused item."""
        pause, why = PAUSE, NO_TIME
        while items:
            left = self.left(why)
            self.fence()
            try:
                answer = self._client.ask("POST", "/_bulk", body=b"".join(item.lines for item in items), seconds=left, patient=True)
            except Timeout as error:
                raise self.late("no answer") from error
            except Unreachable:
                raise
            except Unavailable as error:
                why = error.message
                pause = self._paused(pause, why)
                continue
            except (Denied, NotFound) as error:  # of the whole request
                raise as_unreachable(error) from error
            except BadInput as error:
                self._send_halves(items, error)
                return
            items, why = self._unsent(items, answer["items"])
            if items:
                pause = self._paused(pause, why)

    def _unsent(self, items: list[BulkItem], results: list[dict[str, Any]]) -> tuple[list[BulkItem], str]:
        """The items to send again, and why: all from the first temporary failure on, so that their order stays.

        Errors: `Rejected` when the first failed item is refused; all before it are durable then.
        """
        again: list[BulkItem] = []
        raised: set[tuple[str, str]] = set()
        for number, (item, result) in enumerate(zip(items, results, strict=True)):
            reason = problem(result)
            if reason is None:
                newer = newer_version(result) if self._part.again else None
                if newer is not None:
                    again.append(item.raised(newer))
                    raised.add(item.key)
                elif item.key in raised:  # an earlier item of the same document is sent again: so is this one
                    again.append(item)
                continue
            if reason.full:
                raise DiskFull(f"{self._where} has no space left: {reason.text}.", hint="Make space there.")
            if reason.closed_to_us:
                where = f"{item.where['_index']} at {self._client.where}"
                raise Unreachable(
                    f"Nothing may be written to {where}: {reason.text}.", hint="Remove the block, or grant the user the right."
                )
            if reason.passing:
                return [*again, *items[number:]], reason.text
            self._send(again)
            raise Rejected(f"OpenSearch refuses it: {reason.text}.", offset=item.offset, before_taken=True, hint=_hint(reason))
        return again, "newer versions are there"

    def _send_halves(self, items: list[BulkItem], error: BadInput) -> None:
        """A whole request was refused, for its size or for one item that the response does not name: send its halves."""
        if len(items) == 1:
            raise Rejected(error.message, offset=items[0].offset, before_taken=True, hint="Correct it with edit.") from error
        middle = len(items) // 2
        self._send(items[:middle])
        self._send(items[middle:])

    def _paused(self, pause: float, why: str) -> float:
        if self._clock() + pause >= self._deadline:
            raise self.late(why)
        self._wait(pause)
        return min(2 * pause, LONGEST_PAUSE)


def problem(result: dict[str, Any]) -> BulkFailure | None:
    """The failure of an item; None when it was taken. A newer stored version and a missing document to delete count as taken."""
    ((action, answer),) = result.items()
    status = int(answer.get("status", 500))
    if status < 300 or (action == "delete" and status == 404):
        return None
    error = answer.get("error") or {}
    kind = str(error.get("type", "")) if isinstance(error, dict) else ""
    if status == 409 and kind == "version_conflict_engine_exception":
        return None
    return BulkFailure(status, kind, explained(error))


def newer_version(result: dict[str, Any]) -> int | None:
    """The stored version that is newer than an item's; None when the item was written."""
    ((_, answer),) = result.items()
    match = _CURRENT.search(str((answer.get("error") or {}).get("reason", ""))) if int(answer.get("status", 0)) == 409 else None
    return int(match[1]) if match else None


def id_text(value: Any) -> str:
    """An id as text: text as it is, UUIDs and ObjectIds by their own text, everything else as JSON."""
    native = values.native(value)
    if isinstance(native, str | UUID):
        return str(native)
    return values.canonical(value if isinstance(native, bytes | datetime) else values.extended(native)).decode()


def row(identity: str, document: dict[str, Any]) -> dict[str, Any]:
    """A document with its id; without an id that repeats fields of the document, as rows of tables have it."""
    texts = {id_text(value) for value in document.values() if not isinstance(value, dict | list)}
    if identity in texts:
        return document
    if identity.startswith("["):
        with suppress(BadInput):
            if all(id_text(part) in texts for part in values.decode_any(identity)):
                return document
    return {"_id": identity} | document


def plain(value: Any) -> Any:
    """Extended JSON as plain JSON for search: dates as text, binary data as base64, numbers as numbers."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, list):
        return [item if type(item) in _PLAIN else plain(item) for item in value]
    native = values.native(value)
    match native:
        case dict():
            return {name: item if type(item) in _PLAIN else plain(item) for name, item in native.items()}
        case datetime():
            stamp = native.astimezone(UTC) if native.tzinfo else native.replace(tzinfo=UTC)
            precision = "milliseconds" if stamp.microsecond % 1000 == 0 else "microseconds"
            return stamp.isoformat(timespec=precision).replace("+00:00", "Z")
        case date() | UUID():
            return str(native)
        case bytes() | bytearray():
            return base64.b64encode(native).decode()
        case float() if not math.isfinite(native):
            return str(native)
    return native


def _hint(reason: BulkFailure) -> str:
    if reason.type == "index_not_found_exception":
        return "Create the index: the cluster does not do so by itself."
    return "Correct it with edit, or change the index's mapping."
