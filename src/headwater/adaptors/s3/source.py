"""Reading objects: which there are, and each format's documents from a position on."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, cast

import msgspec

from headwater.adaptors.file.formats import collection, compression_of, format_of, known, plain
from headwater.adaptors.file.lines import KEPT, too_long
from headwater.adaptors.file.source import csv_pieces, line_documents, parquet_pieces, stream_pieces
from headwater.adaptors.s3.connection import Bucket, Object, ObjectFile
from headwater.core.errors import Damaged, NotFound
from headwater.pipeline.adaptor import LONGEST, CopyPlan, Piece, Slice
from headwater.pipeline.namespaces import Namespaces

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.adaptors.s3.adaptor import S3

_BLOCK = 2 << 20
_AHEAD = 8 << 20  # bytes asked for at once


def found(adaptor: S3, bucket: Bucket, chosen: Namespaces) -> dict[str, Object]:
    """The objects by name. Errors: `NotFound` where there are none."""
    objects: dict[str, Object] = {}
    for one in bucket.objects():
        if one.key == bucket.prefix and not one.key.endswith("/"):
            name = PurePosixPath(one.key).name
        else:
            name = one.key.removeprefix(bucket.prefix).lstrip("/")
        hidden = any(part.startswith((".", "_")) for part in name.split("/"))
        if (
            name
            and not name.endswith("/")
            and not hidden
            and collection(name) in chosen
            and (adaptor.format != "auto" or known(_path(name)))
        ):
            objects[name] = one
    if not objects:
        raise NotFound(f"There is no object below {bucket.where} to read.", hint="Look at the prefix, the namespace and the keys' ends.")
    return objects


def plan(adaptor: S3, chosen: Namespaces) -> CopyPlan:
    with Bucket(adaptor) as bucket:
        objects = found(adaptor, bucket, chosen)
    slices = tuple(Slice(collection(name), one._asdict()) for name, one in objects.items())
    return CopyPlan(identity=_identity(objects), slices=slices, ids=dict.fromkeys(map(collection, objects), adaptor.id))


def same(adaptor: S3, plan: CopyPlan, chosen: Namespaces) -> bool:
    with Bucket(adaptor) as bucket:
        try:
            return _identity(found(adaptor, bucket, chosen)) == plan.identity
        except NotFound:
            return False


def _identity(objects: dict[str, Object]) -> dict[str, Any]:
    return {name: [one.size, one.tag] for name, one in objects.items()}


def read(adaptor: S3, part: Slice, position: Any) -> Iterator[Piece]:
    """The documents of an object from a position on. What is wrong with one names the object, too."""
    one = Object(**part.spec)
    for piece in _pieces(adaptor, one, position):
        bad = {index: f"{one.key}: {wrong}" for index, wrong in piece.bad.items()}
        yield msgspec.structs.replace(piece, bad=bad) if bad else piece


def _pieces(adaptor: S3, one: Object, position: Any) -> Iterator[Piece]:
    kind, compression = format_of(_path(one.key), adaptor.format), compression_of(_path(one.key), adaptor.compression)
    with Bucket(adaptor) as bucket, _opened(bucket, one) as source, _legible(one.key, kind if kind == "parquet" else compression):
        if kind == "parquet":
            import pyarrow.parquet as pq

            with pq.ParquetFile(source) as opened:
                groups = opened.num_row_groups
            source.seek(0)
            yield from parquet_pieces(source, [0, groups], position)
        elif kind == "csv":
            yield from csv_pieces(adaptor.infer, plain(source, compression), position)
        elif compression == "none":
            yield from _lines(source, int(position or 0))
        else:
            yield from stream_pieces(plain(source, compression), position)


@contextmanager
def _legible(key: str, kind: str) -> Iterator[None]:
    """Errors: `Damaged` for an object whose bytes are not what its name or the options say."""
    from pyarrow import ArrowInvalid

    try:
        yield
    except (ArrowInvalid, EOFError, OSError, zlib.error) as error:
        hint = "Put a whole one there and begin anew with `run --again`, leave it out with namespace=, or say its format."
        raise Damaged(f"{key} is no whole {kind}: {str(error).rstrip('.')}.", hint=hint) from error


def _opened(bucket: Bucket, one: Object) -> IO[bytes]:
    return cast("IO[bytes]", io.BufferedReader(ObjectFile(bucket, one), _AHEAD))


def _lines(source: IO[bytes], begin: int, *, usual: int = _BLOCK, longest: int = LONGEST) -> Iterator[Piece]:
    """Lines from a byte on, which is a line's first. Of one that is longer than a record, its beginning alone is kept in memory."""
    source.seek(begin)
    at, pending = begin, b""
    while True:
        data = source.read(usual)
        if not data and not pending:
            return
        whole = pending + data
        cut = whole.rfind(b"\n") + 1 if data else len(whole)
        if not cut and len(whole) > longest:
            length, pending = _passed(source, usual)
            first, at = at, at + len(whole) + length
            yield Piece(position=at, values=[whole[:KEPT]], bad={0: too_long(_lines_before(source, first), longest)})
            continue
        whole, pending = whole[:cut], whole[cut:]
        if whole:
            first, at = at, at + len(whole)

            def number(index: int, first: int = first) -> int:
                return _lines_before(source, first) + index

            documents, bad = line_documents(whole, number, longest)
            yield Piece(position=at, values=documents, bad=bad)


def _passed(source: IO[bytes], usual: int) -> tuple[int, bytes]:
    """Read past a line's end: how many bytes that was, and what was read of the lines behind it."""
    length = 0
    while data := source.read(usual):
        if end := data.find(b"\n") + 1:
            return length + end, data[end:]
        length += len(data)
    return length, b""


def _lines_before(source: IO[bytes], at: int) -> int:
    """The number of the line that begins at a byte. Counted only when something is wrong, and the source is left where it was."""
    here, count = source.tell(), 1
    source.seek(0)
    left = at
    while left and (data := source.read(min(left, _BLOCK))):
        count += data.count(b"\n")
        left -= len(data)
    source.seek(here)
    return count


def _path(key: str) -> Path:
    """A key as the functions for files take it: they look at its name alone."""
    return cast("Path", PurePosixPath(key))
