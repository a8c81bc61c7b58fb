"""What moves through a pipeline: one change of one document."""

from __future__ import annotations

from contextlib import suppress
from enum import IntEnum
from typing import Any

import msgspec

from headwater.core.errors import BadInput
from headwater.log.record import Mode
from headwater.pipeline import values

DEFAULT_ID = ("_id",)
__all__ = ["DEFAULT_ID", "Message", "Mode", "Op", "identified", "op_named", "op_said"]


class Op(IntEnum):
    """What happened to the document. The numbers are stored."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2
    COMMAND = 3  # addressed to the sink itself, such as emptying a table; no transform but `remap` sees it
    NOOP = 4  # nothing to write: counts as taken
    SKIP = 5  # what a transform sets to drop a message


_CHANGES = {"update": Op.UPDATE, "delete": Op.DELETE}


class Message(msgspec.Struct, gc=False):
    """One message, a copy of the receiver's own: changing it changes nothing that another sink sees.

    `data` holds JSON values. Integers are `int`; numbers with a point or an exponent that came from text, and decimals of databases, are
    `Decimal`; floats of databases and Parquet are `float`. Types that JSON lacks are written as extended JSON: `{"$date": ...}`,
    `{"$binary": ...}`, `{"$oid": ...}`; see `headwater.pipeline.values`.
    """

    namespace: str
    data: dict[str, Any]
    op: Op = Op.INSERT
    timestamp: int = 0  # milliseconds since 1970
    mode: Mode = Mode.COPY
    offset: int = -1
    id_fields: tuple[str, ...] = DEFAULT_ID

    @property
    def id(self) -> Any:
        """The value that tells documents of one namespace apart: of one field itself, of several a list; None where it is missing."""
        data = self.data
        if len(self.id_fields) == 1:
            return data.get(self.id_fields[0])
        values = [data.get(name) for name in self.id_fields]
        return None if not values or any(value is None for value in values) else values


def op_named(name: str) -> Op:
    """The op of this name. Errors: `BadInput` with the names that exist."""
    try:
        return Op[name.upper()]
    except KeyError:
        raise BadInput(f"{name!r} is no op.", hint=f"Use one of {', '.join(op.name.lower() for op in Op)}.") from None


def op_said(name: object) -> Op:
    """What a header of a record that is read says of a document: an insert, unless it is the word for another change of one.

    The header may be somebody else's, who means by `skip` or `command` what he likes: taken at that word, the message would vanish.
    """
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
    return _CHANGES.get(text.lower(), Op.INSERT) if isinstance(text, str) else Op.INSERT


def identified(key: bytes | None, header: bytes | None, ids: tuple[str, ...]) -> dict[str, Any]:
    """The id that a record has outside of its value: as a sink of ours has said it, else what the key is: an object's fields, a list of
    them, a number, or text."""
    with suppress(BadInput):
        if header is not None:
            return values.decode(header)
    if key is None:
        return {}
    document_id: Any = key.decode("utf-8", "backslashreplace")
    with suppress(BadInput):
        read = values.decode_any(key)
        if isinstance(read, dict):
            return read
        document_id = read if isinstance(read, int | list) and not isinstance(read, bool) else document_id
    if len(ids) > 1:
        return dict(zip(ids, document_id, strict=True)) if isinstance(document_id, list) and len(document_id) == len(ids) else {}
    return {ids[0]: document_id}
