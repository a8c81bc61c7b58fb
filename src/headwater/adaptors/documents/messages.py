"""Documents and their changes as messages, and messages as documents. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.adaptors.converting_writer import identity_of, key_of, made_id
from headwater.adaptors.documents.adaptor import ITEM_ID, DocumentsAdaptor
from headwater.adaptors.pieces import decoded_any
from headwater.core.document_errors import BadPath
from headwater.core.errors import BadInput
from headwater.documents.body import without_nulls
from headwater.documents.change import ChangeRecord, ResourceChange
from headwater.documents.path import parse_path
from headwater.documents.requests import BatchLine
from headwater.pipeline import values
from headwater.pipeline.message import DEFAULT_ID, Message, Mode, Op
from headwater.pipeline.namespaces import Namespaces

ID, REST, DATA = ITEM_ID[0], DEFAULT_ID[0], "data"
TRUNCATE = {"command": "truncate"}
_CLASH = f"The document has a field {REST} of its own, where its path is to go: rename that field"


class DocumentMessages:
    """Makes the messages of a source."""

    def __init__(self, adaptor: DocumentsAdaptor, chosen: Namespaces) -> None:
        self._adaptor, self._chosen = adaptor, chosen

    def namespace(self, uri: str) -> str | None:
        """The namespace of a document or a collection; None for one that the source does not read."""
        adaptor = self._adaptor
        if adaptor.is_collection:
            return uri if uri == adaptor.path else None
        if not uri.startswith(adaptor.prefix):
            return None
        name = uri if uri.endswith("~") else adaptor.path
        return name if name in self._chosen else None

    def stored(self, uri: str, item: str, body: bytes, *, op: Op = Op.INSERT, timestamp: int = 0, mode: Mode) -> tuple[Message, str]:
        """The message of a state, and why it cannot be read; empty where it can. Only of what `namespace` names."""
        content, wrong = decoded_any(body, self._adaptor.decimals)
        if item:
            return Message(uri, content, op, timestamp, mode, id_fields=ITEM_ID), wrong
        data = content if isinstance(content, dict) else {DATA: content}
        if REST in data:
            wrong = _CLASH
        return Message(
            self._adaptor.path, {REST: uri.removeprefix(self._adaptor.prefix), **without(data, REST)}, op, timestamp, mode
        ), wrong

    def of_record(self, record: ChangeRecord, timestamp: int) -> list[tuple[Message, str]]:
        """The messages of a record, each as `stored`."""
        name = self.namespace(record.uri)
        return [] if name is None else [self._changed(record.uri, name, change, timestamp) for change in record.changes]

    def _changed(self, uri: str, name: str, change: ResourceChange, timestamp: int) -> tuple[Message, str]:
        if change.method != "delete":
            op = Op.INSERT if change.created else Op.UPDATE
            return self.stored(uri, change.item, change.state, op=op, timestamp=timestamp, mode=Mode.SYNC)
        if change.item:
            return Message(name, {ID: change.item}, Op.DELETE, timestamp, Mode.SYNC, id_fields=ITEM_ID), ""
        if uri.endswith("~"):
            return Message(name, dict(TRUNCATE), Op.COMMAND, timestamp, Mode.SYNC), ""
        return Message(name, {REST: uri.removeprefix(self._adaptor.prefix)}, Op.DELETE, timestamp, Mode.SYNC), ""


def write_of(adaptor: DocumentsAdaptor, message: Message, pipeline: str) -> BatchLine:
    """What a sink does with a message. Errors: `BadInput`."""
    target = adaptor.target(message.namespace)
    if message.op is Op.COMMAND and message.data.get("command") == "truncate":
        if not target.endswith("~") or "{namespace}" not in adaptor.path:
            raise BadInput(
                f"A truncate of {message.namespace} would delete everything at {target}, also what other namespaces have put there.",
                hint="Skip it with ack, or write each namespace to a collection of its own: {namespace} in the path.",
            )
        return BatchLine(method="delete", path=target)
    identity_of(message, "A collection")
    id, data = identified(adaptor, message, pipeline)
    path = path_of(target, id)
    if message.op is Op.DELETE:
        return BatchLine(method="delete", path=path)
    field = ID if target.endswith("~") else REST
    own = message.data.get(field)
    if own is not None and id_text(own) != id:
        raise BadInput(
            f"The document's field {field} is {id_text(own)!r:.60}, and the id that it is written by is {id!r:.60}, of "
            f"{', '.join(message.id_fields)}: one would replace the other.",
            hint=f'Name the id in the source, id="{field}", or rename the field.',
        )
    if field == REST:
        data = without(data, REST)
    return BatchLine(method="put", path=path, body=msgspec.Raw(values.encode(data)))


def identified(adaptor: DocumentsAdaptor, message: Message, pipeline: str) -> tuple[str, dict[str, Any]]:
    """The id that tells the message's document apart, as text, and the document as the sink has it."""
    identity = message.id
    id = made_id(pipeline, message).replace("#", ":") if identity is None else id_text(identity)
    field = ID if adaptor.target(message.namespace).endswith("~") else REST
    return id, message.data | {field: id}


def id_text(identity: Any) -> str:
    """An id as the last part of a path: text as it is, an ObjectId by its digits, everything else as JSON."""
    if isinstance(identity, dict) and len(identity) == 1 and isinstance(identity.get("$oid"), str):
        return str(identity["$oid"])
    return (key_of(identity) or b"").decode()


def path_of(target: str, id: str) -> str:
    """The path of an item of a collection, or of a document below a prefix. Errors: `BadPath`."""
    if target.endswith("~"):
        path = parse_path(f"{target}/{id}")
        if path.uri != target or path.item != id:
            raise BadPath(f"{id!r:.60} is no id of an item: it has a slash.", hint="Correct it with edit, or with a transform.")
        return path.text
    path = parse_path(f"{target}{id}".lstrip("/") if target == "/" else f"{target}{id}")
    if path.item or path.is_collection:
        raise BadPath(f"{path.text!r:.80} is no document: it is a collection, or in one.", hint="Write to the collection: path=…~.")
    return path.text


def given_back(data: dict[str, Any], path: str) -> dict[str, Any]:
    """A document as `rows` of a sink with this path gives it back."""
    document: dict[str, Any] = without_nulls(values.decode(values.encode(data)))
    if REST in document and path.endswith("~"):
        return {ID: id_text(document[REST]), **document}
    if REST in document and path.endswith("/"):
        return document | {REST: id_text(document[REST])}
    return document


def without(data: dict[str, Any], name: str) -> dict[str, Any]:
    """The fields but one."""
    return {key: value for key, value in data.items() if key != name}
