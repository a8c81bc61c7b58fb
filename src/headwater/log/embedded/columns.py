"""Arrow columns to batches of records and back, without a step per record."""

from __future__ import annotations

import mmap
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.core.errors import BadInput, TooLarge
from headwater.log.arrow import SCHEMA, check_columns
from headwater.log.embedded.fields import HEAD_FIELDS, Column, gather, heads
from headwater.log.layout import HEAD, HEADERS, LAST, MAX_BATCH, NO_VALUE, NULL, SMALLEST, TRAILER, EncodedBatch, too_large

_PART = 30  # bits of a position within a part of a large segment
_VIEW = np.dtype([("length", "<i4"), ("prefix", "<u4"), ("buffer", "<i4"), ("position", "<i4")])


def encode_columns(batch: pa.RecordBatch, *, now: int, limit: int) -> EncodedBatch:
    """`layout.encode` for columns `key`, `value` and, where present, `headers`, `timestamp`, `mode`, `op`. Same errors."""
    count = batch.num_rows
    if not count:
        raise BadInput("An empty batch cannot be appended.", hint="Append at least one record.")
    check_columns(batch)
    keys, values = (_binary(batch.column(name)) for name in ("key", "value"))
    key_sizes, value_sizes = _sizes(keys), _sizes(values)
    blocks = _binary(batch.column("headers")) if "headers" in batch.schema.names else None
    if blocks is not None:
        value_sizes += _sizes(blocks)
    largest = int((key_sizes + value_sizes).max())
    if largest > limit:
        raise too_large(largest, limit)
    total = int(key_sizes.sum() + value_sizes.sum()) + SMALLEST * count + TRAILER.size
    if total > MAX_BATCH:
        raise TooLarge(f"A batch of {total} bytes is larger than 64 MiB.", hint="Append it in several batches.")
    head = np.zeros(count, HEAD_FIELDS)
    value_sizes[-1] += TRAILER.size
    head["message"] = 8 + key_sizes + value_sizes
    head["timestamp"] = _numbers(batch, "timestamp", now, 0, (1 << 63) - 1)
    head["mode"] = _numbers(batch, "mode", 0, 0, 3) | _numbers(batch, "op", 0, 0, 7) << 2
    if values.null_count:
        head["mode"] |= np.where(_nulls(values), NO_VALUE, 0).astype(np.uint8)
    pieces = [values.fill_null(b"")]
    if blocks is not None and blocks.null_count < count:
        head["mode"] |= np.where(_nulls(blocks), 0, HEADERS).astype(np.uint8)
        pieces.insert(0, blocks.fill_null(b""))
    head["mode"][-1] |= LAST
    head["key"] = np.where(_nulls(keys), NULL, key_sizes) if keys.null_count else key_sizes
    return _joined(head, keys.fill_null(b""), key_sizes, value_sizes, pieces, total)


def reencode(data: mmap.mmap, size: int, starts: Column, *, seconds: bool = False) -> EncodedBatch:
    """Records as one new batch, offsets kept, old trailers left out. `seconds`: their timestamps are seconds, and become milliseconds."""
    old = heads(data, size, starts)
    key = old["key"].astype(np.int64)
    key_sizes = np.where(key == NULL, 0, key)
    bits = old["mode"] & (0x1F if seconds else 0xFF)
    data_sizes = old["message"].astype(np.int64) - 8 - key_sizes - (bits >> 7).astype(np.int64) * TRAILER.size
    head = np.zeros(len(starts), HEAD_FIELDS)
    head["offset"] = old["offset"]
    times = old["timestamp"].astype(np.uint64)
    head["timestamp"] = np.where(times < 1 << 63, times * np.uint64(1000), 0) if seconds else times  # seconds before 1970 become 0
    head["mode"] = bits & (LAST - 1)
    head["mode"][-1] |= LAST
    head["key"] = key
    buffer, whole = pa.py_buffer(data), np.zeros(len(starts), bool)
    keys = _views(data, size, buffer, starts + 25, key_sizes, whole).cast(pa.binary())
    values = _views(data, size, buffer, starts + 29 + key_sizes, data_sizes, whole).cast(pa.binary())
    total = int(key_sizes.sum() + data_sizes.sum()) + SMALLEST * len(starts) + TRAILER.size
    data_sizes[-1] += TRAILER.size
    head["message"] = 8 + key_sizes + data_sizes
    return _joined(head, keys, key_sizes, data_sizes, [values], total)


def _joined(head: Column, keys: pa.Array, key_sizes: Column, data_sizes: Column, data: Sequence[pa.Array], total: int) -> EncodedBatch:
    """Arrow puts the pieces of all records one behind the other: the batch is its data buffer, where records begin its offsets."""
    count, sizes = len(head), data_sizes.astype(">u4")
    width = int(key_sizes[0])
    if (key_sizes == width).all():  # keys of one length, which is the rule in a copy: what stands before the data is one piece
        fixed = np.empty(count, [("head", head.dtype), ("key", f"V{width}"), ("size", ">u4")])
        fixed["head"], fixed["size"] = head, sizes
        if width:
            begin = int(np.frombuffer(keys.buffers()[1], np.int32)[keys.offset])
            fixed["key"] = np.frombuffer(keys.buffers()[2], f"V{width}", count, begin)
        before = [_fixed(fixed, fixed.dtype.itemsize)]
    else:
        before = [_fixed(head, HEAD.size), keys, _fixed(sizes, 4)]
    ends = np.zeros(count + 1, np.int32)
    ends[-1] = TRAILER.size
    trailer = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(bytes(TRAILER.size))])
    joined = pc.binary_join_element_wise(*before, *data, trailer, b"")
    starts = np.frombuffer(joined.buffers()[1], np.int32, count, joined.offset * 4).astype(np.uint32)
    return EncodedBatch(memoryview(joined.buffers()[2])[:total], starts, count)


def _binary(column: pa.Array) -> pa.Array:
    if not (pa.types.is_binary(column.type) or pa.types.is_string(column.type)):
        column = column.cast(pa.binary())
    return column if pa.types.is_binary(column.type) else column.view(pa.binary())


def _sizes(column: pa.Array) -> Column:
    sizes: Column = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes


def _nulls(column: pa.Array) -> Column:
    nulls: Column = column.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _numbers(batch: pa.RecordBatch, name: str, missing: int, low: int, high: int) -> Column:
    if name not in batch.schema.names:
        return np.full(batch.num_rows, missing, np.int64)
    numbers: Column = batch.column(name).fill_null(missing).to_numpy(zero_copy_only=False).astype(np.int64)
    if numbers.min() < low or numbers.max() > high:
        raise BadInput(f"A {name} outside of {low} to {high} cannot be appended.", hint=f"Mend the column {name}.")
    return numbers


def _fixed(array: Column, width: int) -> pa.Array:
    """A numpy array as Arrow binary of one width, its bytes as they are."""
    offsets = np.arange(0, (len(array) + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), len(array), [None, pa.py_buffer(offsets), pa.py_buffer(array)])


def decode_columns(data: mmap.mmap, size: int, starts: Column, head: Column | None = None) -> pa.RecordBatch:
    """The records that begin at `starts` as Arrow views into the mapped segment; the bytes must have been checked.

    `head`: their fields, where they have been gathered already.
    """
    if not len(starts):
        return pa.RecordBatch.from_pylist([], schema=SCHEMA)
    head = heads(data, size, starts) if head is None else head
    mode, buffer, prefix = head["mode"].copy(), pa.py_buffer(data), None
    no_value = (mode & NO_VALUE) > 0
    if "begin" in (head.dtype.names or ()):  # keys of one length: what depends on it has been gathered, too
        width = int(head["key"][0])
        keys = _views(data, size, buffer, starts + 25, width, None, head["first"])
        value_at, value_length, prefix = starts + (29 + width), head["size"].astype(np.int64), head["begin"]
    else:
        key_length = head["key"].astype(np.int64)
        no_key = key_length == NULL
        key_length[no_key] = 0
        keys = _views(data, size, buffer, starts + 25, key_length, no_key, head["first"])
        value_at = starts + 29 + key_length
        value_length = head["message"].astype(np.int64) - 8 - key_length
    value_length -= (mode >> 7) * np.int64(TRAILER.size)
    headers = pa.nulls(len(starts), pa.binary_view())
    if (mode & HEADERS).any():
        with_block = (mode & HEADERS) > 0
        block = np.where(with_block, gather(data, size, ">u4", np.minimum(value_at, size - 4)).astype(np.int64) + 4, 0)
        headers = _views(data, size, buffer, value_at, block, ~with_block)
        value_at, prefix = value_at + block, None
        value_length -= block
    columns = [
        pa.array(head["offset"].astype(np.int64)),
        pa.array(head["timestamp"].astype(np.int64)),
        keys,
        _views(data, size, buffer, value_at, value_length, no_value, prefix),
        headers,
        pa.array(mode & 3),
        pa.array(mode >> 2 & 7),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _views(
    data: mmap.mmap, size: int, buffer: pa.Buffer, at: Column, length: Column | int, null: Column | None, prefix: Column | None = None
) -> pa.Array:
    """Binary views: up to 12 bytes stand in the view itself, longer values are pointed at. `prefix`: their first bytes, where known."""
    views = np.zeros(len(at), _VIEW)
    views["length"] = length
    views["prefix"] = gather(data, size, "<u4", at if at[-1] <= size - 4 else np.minimum(at, size - 4)) if prefix is None else prefix
    parts = [buffer]
    if size < 1 << 31:
        views["position"] = at
    else:  # a segment just below 2 GiB got another batch: a view's position has 31 bits, so it is one within a part
        views["buffer"], views["position"] = at >> _PART, at & (1 << _PART) - 1
        parts = [buffer.slice(begin) for begin in range(0, size, 1 << _PART)]
    if (length if isinstance(length, int) else int(length.min())) <= 12:
        lengths = np.full(len(at), length) if isinstance(length, int) else length
        short = np.flatnonzero(lengths <= 12)
        inline = np.zeros((len(short), 16), np.uint8)
        inline[:, :4] = lengths[short].astype("<i4").view(np.uint8).reshape(-1, 4)
        bytes_at = np.minimum(at[short, None] + np.arange(12), size - 1)
        inline[:, 4:] = np.where(np.arange(12) < lengths[short, None], gather(data, size, "u1", bytes_at), 0)
        views.view("V16")[short] = inline.view("V16").ravel()
    valid = pa.py_buffer(np.packbits(~null, bitorder="little").tobytes()) if null is not None and null.any() else None
    return pa.Array.from_buffers(pa.binary_view(), len(at), [valid, pa.py_buffer(views), *parts])
