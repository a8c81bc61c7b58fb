"""Documents and their changes, as the door gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args

import msgspec

from headwater.core.errors import BadInput
from headwater.documents.answers import ShownDocumentChange
from headwater.documents.change import Method
from headwater.documents.requests import BatchLine
from headwater.documents.write import Verb
from headwater.wire import json
from headwater.wire.times import read_time

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultedTypeVar

    B = DefaultedTypeVar("B", default=Any)
else:
    B = TypeVar("B")
MISSING: Any = msgspec.UNSET
"""An argument that was not given."""
ANY_BODY: Any = object
"""The type of a body that is not named: whatever JSON holds."""
SNAPSHOT = "snapshot"
"""The position of a change within a snapshot."""
BatchWrite = BatchLine | tuple[Verb, str] | tuple[Verb, str, Any]
"""A write of a batch: method, path and body."""


class Document(msgspec.Struct, Generic[B], frozen=True, kw_only=True):
    """A document or an item, as it was read. `etag`: what `if_match` takes."""

    path: str
    body: B
    revision: int
    etag: str


class DocumentChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a document or an item. `position`: what `after` takes; within a snapshot, which is not yet whole, it is "snapshot": the
    feed begins with a new one. `time` in ms.

    `kind`: feed, a change; snapshot, the state before it, and snapshot:end behind it; enter, change, leave, of a live query; reset: forget
    what was followed so far, a snapshot comes.
    """

    kind: str
    method: Method | None
    path: str
    revision: int
    body: Any = None
    time: int = 0
    position: str = ""


class ChangedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document or item that has changed: its state now, or that it is deleted. `time`: ISO 8601."""

    path: str
    revision: int
    time: str | int | None = None
    deleted: bool = False
    body: Any = None


class ChangesSince(msgspec.Struct, frozen=True, kw_only=True):
    """What has changed after a revision. `revision`: to ask from next; `more`: at once. `reset`: read everything anew first."""

    revision: int
    items: list[ChangedDocument] = []
    more: bool = False
    reset: bool = False


def batch_line(write: BatchWrite) -> BatchLine:
    """A write of a batch, as it is sent. Errors: `BadInput`."""
    if isinstance(write, BatchLine):
        return write
    if not isinstance(write, tuple) or len(write) not in (2, 3) or write[0] not in get_args(Verb) or not isinstance(write[1], str):
        raise BadInput(f"{write!r:.80} is no write.", hint='Write it such as ("put", "shop/settings", {"open": True}).')
    body = msgspec.Raw(json.encode_given(write[2], "body")) if len(write) == 3 else msgspec.UNSET
    return BatchLine(method=write[0], path=write[1], body=body)


def decoded(body: bytes, kind: type[B], path: str) -> B:
    """A body as this type. Errors: `BadInput` where it is another."""
    try:
        return json.decoder(kind)(body)
    except json.UNREADABLE as error:
        raise BadInput(
            f"{path} is no {getattr(kind, '__name__', kind)}: {error}.", hint="Read it without a type to see what it holds."
        ) from None


def begins_anew(shown: ShownDocumentChange) -> bool:
    """Whether whoever has had this change and no later one has to begin with a snapshot: what it has is not whole."""
    return shown.method == "reset" or (shown.method.startswith("snapshot:") and shown.method != "snapshot:end")


def change_of(shown: ShownDocumentChange) -> DocumentChange:
    """A change, as the door gives it."""
    kind, _, method = shown.method.partition(":")
    return DocumentChange(
        kind=shown.method if method == "end" else kind,
        method=method if method in ("put", "patch", "delete") else None,  # type: ignore[arg-type]
        path=shown.path,
        revision=shown.revision,
        body=None if shown.body is msgspec.UNSET else decoded(bytes(shown.body), object, shown.path),
        time=0 if shown.time is None else read_time(shown.time),
        position=shown.position or (SNAPSHOT if begins_anew(shown) else str(shown.revision)),
    )
