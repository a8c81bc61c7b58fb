"""Reading objects: which there are, and each format's documents from a position on."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

import msgspec

from headwater.adaptors.file.cells import csv_pieces
from headwater.adaptors.file.formats import collection, compression_of, format_of, known, legible, plain
from headwater.adaptors.file.groups import parquet_pieces
from headwater.adaptors.file.lines import KEPT, line_documents, passed, stream_pieces, too_long
from headwater.adaptors.s3.adaptor import S3
from headwater.adaptors.s3.connection import Bucket, Object, ObjectFile
from headwater.core.errors import NotFound
from headwater.pipeline.adaptor import LONGEST, CopyPlan, Piece, Slice, SourceAdaptor
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_progress import CopySize

_BLOCK = 2 << 20
_AHEAD = 8 << 20  # bytes asked for at once


class S3Source(SourceAdaptor[S3]):
    """Objects as they are at one moment: one that is replaced under a copy is an error."""

    def check(self, chosen: Namespaces) -> list[str]:
        with Bucket(self.adaptor) as bucket:
            objects = found(self.adaptor, bucket, chosen)
        return [f"{len(objects)} objects, {sum(one.size for one in objects.values()):,} bytes"]

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        with Bucket(self.adaptor) as bucket:
            objects = found(self.adaptor, bucket, chosen)
        parts = tuple(Slice(collection(name), one._asdict(), one.size) for name, one in objects.items())
        size = CopySize(total=sum(one.size for one in objects.values()), unit="bytes")
        ids = dict.fromkeys(map(collection, objects), self.adaptor.id)
        return CopyPlan(identity=_identity(objects), slices=parts, ids=ids, size=size, repeats=len(parts) == len(ids))

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        with Bucket(self.adaptor) as bucket:
            try:
                return _identity(found(self.adaptor, bucket, chosen)) == plan.identity
            except NotFound:
                return False

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        """The documents of an object from a position on. What is wrong with one names the object, too."""
        one = Object(**part.spec)
        for piece in self._pieces(one, position):
            bad = {index: f"{one.key}: {wrong}" for index, wrong in piece.bad.items()}
            yield msgspec.structs.replace(piece, bad=bad) if bad else piece

    def _pieces(self, one: Object, position: Any) -> Iterator[Piece]:
        """Each with the bytes of the object that were read by then."""
        adaptor, name = self.adaptor, _path(one.key)
        kind, compression = format_of(name, adaptor.format), compression_of(name, adaptor.compression)
        with Bucket(adaptor) as bucket, _opened(bucket, one) as source, legible(name, kind if kind == "parquet" else compression):
            if kind == "parquet":
                import pyarrow.parquet as pq

                with pq.ParquetFile(source) as opened:
                    rows = [opened.metadata.row_group(number).num_rows for number in range(opened.num_row_groups)]
                source.seek(0)
                for piece in parquet_pieces(source, [0, len(rows)], position):
                    group, row = piece.position
                    yield msgspec.structs.replace(piece, amount=one.size * (sum(rows[:group]) + row) // sum(rows))
                return
            if kind == "csv":
                pieces = csv_pieces(adaptor.infer, plain(source, compression), position)
            elif compression == "none":
                pieces = _lines(source, int(position or 0))
            else:
                pieces = stream_pieces(plain(source, compression), position)
            for piece in pieces:
                yield msgspec.structs.replace(piece, amount=piece.position if compression == "none" else source.tell())


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


def _identity(objects: dict[str, Object]) -> dict[str, Any]:
    return {name: [one.size, one.tag] for name, one in objects.items()}


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
            length, pending = passed(source, usual)
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
