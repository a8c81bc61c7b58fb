"""The bytes of a region's records: keys of the data topic and the meta topic, and values that hold one payload or several.

    data key   26 bytes   kind u8 | region u64 | table u64 | sequence u64 | version u8 = 0
    meta key   10 bytes   kind u8 = 0 | version u8 = 0 | region u64
    value      version u8 = 0 | payload                                               one payload
               version u8 = 1 | count u32 | count × length u32 | payloads             several, which share an offset

All integers are big-endian. The sequence of a key is: of an entry and a move, that of the first payload; of a mark, the first sequence
that is kept; of a drop, the sequence that the next entry would have had. Marks and drops have the value of an empty payload.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import accumulate, pairwise, repeat
from typing import NamedTuple

from headwater.core.errors import BadInput

MAX_ID = (1 << 64) - 1
_KEY = struct.Struct(">BQQQB")
KEY_LENGTH = _KEY.size
OVERHEAD = 64  # bytes of a record beside its key and its value, the header of Kafka's epoch included
_META_KEY = struct.Struct(">BBQ")
_VERSION = 0
_ONE, _SEVERAL = 0, 1
_COUNT = struct.Struct(">BI")
_META = 0
EMPTY = bytes([_ONE])  # the value of marks and drops


class RecordKind(IntEnum):
    """What a record of the data topic says of its table."""

    ENTRY = 1  # payloads were written
    MARK = 2  # everything below a sequence is flushed
    DROP = 3  # the table is gone; a table of its number that is written later is a new one
    MOVE = 4  # live payloads were copied to the end of the log, under their own sequences


class RecordKey(NamedTuple):
    kind: RecordKind
    region: int
    table: int
    sequence: int


class MalformedRecord(ValueError):
    """Bytes that no writer of this version has made. Its text says what is wrong with them."""


def encode_key(kind: RecordKind, region: int, table: int, sequence: int) -> bytes:
    return _KEY.pack(kind, region, table, sequence, _VERSION)


def encode_keys(region: int, kinds: Iterable[RecordKind], tables: Iterable[int], sequences: Iterable[int]) -> list[bytes]:
    """`encode_key` for columns."""
    return list(map(_KEY.pack, kinds, repeat(region), tables, sequences, repeat(_VERSION)))


def decode_key(key: bytes | None) -> RecordKey:
    """Errors: `MalformedRecord`."""
    if key is None or len(key) != _KEY.size:
        raise MalformedRecord(f"its key has {0 if key is None else len(key)} bytes, not {_KEY.size}")
    kind, region, table, sequence, version = _KEY.unpack(key)
    if kind not in _KINDS:
        raise MalformedRecord(f"its key is of kind {kind}")
    if version != _VERSION:
        raise MalformedRecord(f"its key has version {version}; this headwater knows version {_VERSION}")
    return RecordKey(_KINDS[kind], region, table, sequence)


_KINDS = {kind.value: kind for kind in RecordKind}


def encode_meta_key(region: int) -> bytes:
    return _META_KEY.pack(_META, _VERSION, region)


def decode_meta_key(key: bytes | None) -> int:
    """The region. Errors: `MalformedRecord`."""
    if key is None or len(key) != _META_KEY.size:
        raise MalformedRecord(f"its key has {0 if key is None else len(key)} bytes, not {_META_KEY.size}")
    kind, version, region = _META_KEY.unpack(key)
    if (kind, version) != (_META, _VERSION):
        raise MalformedRecord(f"its key is of kind {kind} and version {version}, not of kind {_META} and version {_VERSION}")
    return int(region)


def encode_payloads(payloads: Sequence[bytes]) -> bytes:
    """The value of a record. Errors: `BadInput` for no payloads, and for what is no bytes."""
    if type(payloads) is list and len(payloads) == 1 and type(payloads[0]) is bytes:  # first, for speed: the rule
        return EMPTY + payloads[0]
    if type(payloads) is not list or set(map(type, payloads)) != _BYTES:
        payloads = _checked(payloads)
    if len(payloads) == 1:
        return EMPTY + payloads[0]
    lengths = struct.pack(f">{len(payloads)}I", *map(len, payloads))
    return b"".join((_COUNT.pack(_SEVERAL, len(payloads)), lengths, *payloads))


_BYTES = {bytes}


def _checked(payloads: object) -> list[bytes]:
    """Other sequences, and other bytes than `bytes`. A buffer whose items are not bytes has another length than its bytes have."""
    if not isinstance(payloads, Sequence) or isinstance(payloads, str | bytes | bytearray | memoryview):
        raise BadInput(f"Payloads come as a list, not as a {type(payloads).__name__}.", hint="Give a list, such as [payload].")
    if not payloads:
        raise BadInput("A write without payloads cannot be numbered.", hint="Give at least one payload; an empty one, b'', is one.")
    for place, payload in enumerate(payloads):
        if not isinstance(payload, bytes | bytearray | memoryview) or (
            isinstance(payload, memoryview) and not (payload.itemsize == 1 and payload.c_contiguous)
        ):
            raise BadInput(f"Payload {place} is of type {type(payload).__name__}.", hint="Give bytes, such as json.dumps(...).encode().")
    return [bytes(buffer) for buffer in payloads]


def payload_count(value: bytes | None) -> int:
    """How many payloads a value has, without taking it apart. Errors: `MalformedRecord`."""
    if not value:
        raise MalformedRecord("it has no value")
    if value[0] == _ONE:
        return 1
    if value[0] != _SEVERAL:
        raise MalformedRecord(f"its value has version {value[0]}; this headwater knows versions {_ONE} and {_SEVERAL}")
    if len(value) < _COUNT.size:
        raise MalformedRecord(f"its value ends after {len(value)} bytes")
    count: int = _COUNT.unpack_from(value)[1]
    if count < 1 or len(value) < _COUNT.size + 4 * count:
        raise MalformedRecord(f"its value says that it has {count} payloads, in {len(value)} bytes")
    end = _COUNT.size + 4 * count + sum(struct.unpack_from(f">{count}I", value, _COUNT.size))
    if end != len(value):
        raise MalformedRecord(f"its payloads end at byte {end}, and its value at byte {len(value)}")
    return count


def decode_payloads(value: bytes | None) -> list[bytes]:
    """The payloads in order. Errors: `MalformedRecord`."""
    count = payload_count(value)
    assert value is not None
    if value[0] == _ONE:
        return [value[1:]]
    begin = _COUNT.size + 4 * count
    ends = accumulate(struct.unpack_from(f">{count}I", value, _COUNT.size), initial=begin)
    return [value[start:end] for start, end in pairwise(ends)]
