"""How far a source has come: positions travel in the headers of the records that they stand for, and are read back from the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from headwater.log import Log, Writer
from headwater.log.layout import decode_headers, encode_headers
from headwater.log.record import Header, Mode, Record
from headwater.pipeline import values
from headwater.pipeline.adaptor import Piece
from headwater.pipeline.message import Op
from headwater.pipeline.running.found import counts, id_hash
from headwater.pipeline.running.work import HASH, PROGRESS, UNREADABLE, Progress

FOLLOWING = -1  # the slice number of what is followed


def append(writer: Writer, piece: Piece, namespace: str, progress: Progress, *, mode: Mode = Mode.COPY) -> tuple[int, int]:
    """Append a piece whole, its last record carrying the position; how many records and bytes of documents. None for an empty piece.

    `namespace`: of a piece that has documents and no messages.
    """
    if piece.messages:
        records = _records(piece, progress, mode)
        writer.append(records)
        return len(records), sum(len(one.value or b"") for one in records)
    if piece.values:
        writer.append_arrow(_columns(piece, namespace, progress))
    return len(piece.values), sum(map(len, piece.values))


def _columns(piece: Piece, namespace: str, progress: Progress) -> pa.RecordBatch:
    """Documents of a copy, all of one namespace: as columns they need no step of ours for each."""
    count = len(piece.values)
    marks: dict[int, list[Header]] = {index: [(UNREADABLE, why.encode())] for index, why in piece.bad.items()}
    marks.setdefault(count - 1, []).append((PROGRESS, msgspec.json.encode(progress)))
    blocks: list[bytes | None] = [None] * count
    for index, headers in marks.items():
        blocks[index] = encode_headers(headers)
    columns = [
        pa.repeat(pa.scalar(namespace.encode(), pa.binary()), count),
        pa.array(piece.values, pa.binary()),
        pa.array(blocks, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value", "headers"])


def _records(piece: Piece, progress: Progress, mode: Mode) -> list[Record]:
    records = [
        Record(
            message.namespace.encode(),
            values.encode(message.data),
            headers=((HASH, id_hash(message.id).to_bytes(4, "big")),) if mode == Mode.SYNC else (),
            timestamp=message.timestamp or None,
            mode=mode,
            op=int(message.op),
        )
        for message in piece.messages
    ]
    for index, why in piece.bad.items():
        records[index] = msgspec.structs.replace(records[index], headers=(*records[index].headers, (UNREADABLE, why.encode())))
    last = records[-1]
    records[-1] = msgspec.structs.replace(last, headers=(*last.headers, (PROGRESS, msgspec.json.encode(progress))))
    return records


def complete_records(namespaces: Sequence[str]) -> list[Record]:
    """What says that the copy of each namespace is complete."""
    return [Record(name.encode(), b"{}", mode=Mode.COMPLETE, op=int(Op.NOOP)) for name in namespaces]


def positions(log: Log, topic: str, start: int, copy: str, claims: Sequence[tuple[int, int]] = ()) -> dict[int, Any]:
    """The last position of each slice of a copy, from the records at `start` and behind it."""
    found: dict[int, Any] = {}
    if start >= log.bounds(topic, 0).end:
        return found
    for chunk in log.scan(topic, 0, start):
        headers = chunk.column("headers")
        if headers.null_count == len(chunk):
            continue
        offsets = chunk.column("offset").filter(headers.is_valid())
        for offset, block in zip(offsets.to_pylist(), _present(headers), strict=True):
            marked = dict(decode_headers(block))
            value = marked.get(PROGRESS)
            if value is not None and counts(marked, offset, claims):
                progress = msgspec.json.decode(value, type=Progress)
                if progress.copy == copy:
                    found[progress.slice] = progress.position
    return found


def _present(headers: pa.Array) -> list[bytes]:
    present: list[bytes] = headers.cast(pa.binary()).drop_null().to_pylist()
    return present
