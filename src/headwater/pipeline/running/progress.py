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
from headwater.pipeline.adaptor import LONGEST, Piece
from headwater.pipeline.message import DEFAULT_ID, Op
from headwater.pipeline.running.record_batch import counts, id_hash, marked_rows
from headwater.pipeline.running.work import HASH, IDS, PROGRESS, UNREADABLE, CopyProgress, Ids
from headwater.pipeline.texts import Texts

FOLLOWING = -1  # the slice number of what is followed
_BEGINNING = 64 << 10


def append(
    writer: Writer, piece: Piece, namespace: str, progress: CopyProgress, *, ids: Ids, mode: Mode = Mode.COPY, longest: int = LONGEST
) -> tuple[int, int]:
    """Append a piece whole, its last record carrying the position; how many records and bytes of documents. None for an empty piece.

    `namespace`: of a piece that has documents and no messages. `ids`: what the plan says of them. `longest`: bytes of a document; of a
    longer one its beginning is kept, as a record that could not be read.
    """
    if piece.messages:
        records = _records(piece, progress, mode, ids, longest)
        writer.append(records)
        return len(records), sum(len(one.value or b"") for one in records)
    if not piece.values:
        return 0, 0
    texts = piece.values if isinstance(piece.values, Texts) else Texts(pa.array(piece.values, pa.binary()))
    bad, size = dict(piece.bad), texts.size
    if size > longest and texts.longest > longest:
        whole = list(texts)
        bad |= {index: _too_long(text, longest) for index, text in enumerate(whole) if len(text) > longest}
        texts = Texts(pa.array([text[:_BEGINNING] if len(text) > longest else text for text in whole], pa.binary()))
    writer.append_arrow(_columns(texts, bad, namespace, progress))
    return len(texts), size


def _too_long(text: bytes, longest: int) -> str:
    return f"The document has {len(text)} bytes, and a record of the log at most {longest}: only its beginning was kept."


def _columns(texts: Texts, bad: dict[int, str], namespace: str, progress: CopyProgress) -> pa.RecordBatch:
    """Documents of a copy, all of one namespace: as columns they need no step of ours for each."""
    count = len(texts)
    marks: dict[int, list[Header]] = {index: [(UNREADABLE, why.encode())] for index, why in bad.items()}
    marks.setdefault(count - 1, []).append((PROGRESS, msgspec.json.encode(progress)))
    blocks: list[bytes | None] = [None] * count
    for index, headers in marks.items():
        blocks[index] = encode_headers(headers)
    columns = [
        pa.repeat(pa.scalar(namespace.encode(), pa.binary()), count),
        texts.column,
        pa.array(blocks, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value", "headers"])


def _records(piece: Piece, progress: CopyProgress, mode: Mode, ids: Ids, longest: int) -> list[Record]:
    records, bad = [], dict(piece.bad)
    for index, message in enumerate(piece.messages):
        headers: list[Header] = [(HASH, id_hash(message.id).to_bytes(4, "big"))] if mode == Mode.SYNC else []
        if message.id_fields != tuple(ids.get(message.namespace, DEFAULT_ID)):  # a table that was made after the plan
            headers.append((IDS, msgspec.json.encode(message.id_fields)))
        text = values.encode(message.data)
        if len(text) > longest:
            text, bad[index] = text[:_BEGINNING], _too_long(text, longest)
        record = Record(message.namespace.encode(), text, tuple(headers), message.timestamp or None, mode, int(message.op))
        records.append(record)
    for index, why in bad.items():
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
        for offset, block in marked_rows(chunk):
            marked = dict(decode_headers(block))
            value = marked.get(PROGRESS)
            if value is not None and counts(marked, offset, claims):
                progress = msgspec.json.decode(value, type=CopyProgress)
                if progress.copy == copy:
                    found[progress.slice] = progress.position
    return found
