"""Reading objects: the list of them, and the documents of each from a position on."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

import msgspec

from headwater.adaptors.file.csv_reader import text_pieces
from headwater.adaptors.file.formats import collection, compression_of, decompressed, format_of, known, legible
from headwater.adaptors.file.parquet_reader import group_rows, parquet_pieces
from headwater.adaptors.s3.adaptor import S3
from headwater.adaptors.s3.connection import Bucket, ObjectFile, S3Object
from headwater.adaptors.s3.locations import prefix_locations
from headwater.core.errors import NotFound
from headwater.pipeline.location import Location
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import CopyPlan, Piece, Slice, SourceAdaptor
from headwater.pipeline.source_progress import CopySize

_AHEAD = 8 << 20  # bytes asked for at once


class S3Source(SourceAdaptor[S3]):
    """Objects as they were when the copy began: one that is replaced meanwhile is an error."""

    def check(self, chosen: Namespaces) -> list[str]:
        with Bucket(self.adaptor) as bucket:
            objects = found(self.adaptor, bucket, chosen)
        return [f"{len(objects)} objects, {sum(one.size for one in objects.values()):,} bytes"]

    def locations(self, chosen: Namespaces) -> list[Location]:
        return prefix_locations(self.adaptor, chosen)

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        with Bucket(self.adaptor) as bucket:
            objects = found(self.adaptor, bucket, chosen)
        parts = tuple(Slice(collection(name), one._asdict(), one.size) for name, one in objects.items())
        size = CopySize(total=sum(one.size for one in objects.values()), unit="bytes")
        ids = dict.fromkeys(map(collection, objects), self.adaptor.id)
        return CopyPlan(identity=_identity(objects), slices=parts, ids=ids, size=size, repeats=True)

    def unit(self, part: Slice) -> tuple[str, Any]:
        one = S3Object(**part.spec)
        return one.key, one.tag

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        with Bucket(self.adaptor) as bucket:
            try:
                return _identity(found(self.adaptor, bucket, chosen)) == plan.identity
            except NotFound:
                return False

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        """The documents of an object from a position on. Errors of documents name the object, too."""
        one = S3Object(**part.spec)
        for piece in self._pieces(one, position):
            bad = {index: f"{one.key}: {wrong}" for index, wrong in piece.bad.items()}
            yield msgspec.structs.replace(piece, bad=bad) if bad else piece

    def _pieces(self, one: S3Object, position: Any) -> Iterator[Piece]:
        """The pieces, each with the bytes of the object that are read."""
        adaptor, name = self.adaptor, _path(one.key)
        kind, compression = format_of(name, adaptor.format), compression_of(name, adaptor.compression)
        with Bucket(adaptor) as bucket, _opened(bucket, one) as source, legible(name, kind if kind == "parquet" else compression):
            if kind == "parquet":
                rows = group_rows(source)
                for piece in parquet_pieces(source, position):
                    group, row = piece.position
                    yield msgspec.structs.replace(piece, amount=one.size * (sum(rows[:group]) + row) // sum(rows))
                return
            plain = compression == "none"
            opened = decompressed(source, compression)
            for piece in text_pieces(kind, opened, position, infer=adaptor.infer, decimals=adaptor.decimals, seek=plain):
                yield msgspec.structs.replace(piece, amount=piece.position if plain else source.tell())


def found(adaptor: S3, bucket: Bucket, chosen: Namespaces) -> dict[str, S3Object]:
    """The objects by name. Errors: `NotFound` where there are none."""
    objects: dict[str, S3Object] = {}
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


def _identity(objects: dict[str, S3Object]) -> dict[str, Any]:
    return {name: [one.size, one.tag] for name, one in objects.items()}


def _opened(bucket: Bucket, one: S3Object) -> IO[bytes]:
    return cast("IO[bytes]", io.BufferedReader(ObjectFile(bucket, one), _AHEAD))


def _path(key: str) -> Path:
    """A key as the functions for files take it: they use its name only."""
    return cast("Path", PurePosixPath(key))
