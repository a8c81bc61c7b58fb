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
        return [f"{len(objects)} objects, {sum(s3_object.size for s3_object in objects.values()):,} bytes"]

    def locations(self, chosen: Namespaces) -> list[Location]:
        return prefix_locations(self.adaptor, chosen)

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        with Bucket(self.adaptor) as bucket:
            objects = found(self.adaptor, bucket, chosen)
        parts = tuple(Slice(collection(name), s3_object._asdict(), s3_object.size) for name, s3_object in objects.items())
        size = CopySize(total=sum(s3_object.size for s3_object in objects.values()), unit="bytes")
        ids = dict.fromkeys(map(collection, objects), self.adaptor.id)
        return CopyPlan(identity=_identity(objects), slices=parts, ids=ids, size=size, repeats=True)

    def unit(self, part: Slice) -> tuple[str, Any]:
        s3_object = S3Object(**part.spec)
        return s3_object.key, s3_object.tag

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        with Bucket(self.adaptor) as bucket:
            try:
                return _identity(found(self.adaptor, bucket, chosen)) == plan.identity
            except NotFound:
                return False

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        """The documents of an object from a position on. Errors of documents name the object, too."""
        s3_object = S3Object(**part.spec)
        for piece in self._pieces(s3_object, position):
            bad = {index: f"{s3_object.key}: {wrong}" for index, wrong in piece.bad.items()}
            yield msgspec.structs.replace(piece, bad=bad) if bad else piece

    def _pieces(self, s3_object: S3Object, position: Any) -> Iterator[Piece]:
        """The pieces, each with the bytes of the object that are read."""
        adaptor, name = self.adaptor, _path(s3_object.key)
        kind, compression = format_of(name, adaptor.format), compression_of(name, adaptor.compression)
        with Bucket(adaptor) as bucket, _opened(bucket, s3_object) as source, legible(name, kind if kind == "parquet" else compression):
            if kind == "parquet":
                rows = group_rows(source)
                for piece in parquet_pieces(source, position):
                    group, row = piece.position
                    yield msgspec.structs.replace(piece, amount=s3_object.size * (sum(rows[:group]) + row) // sum(rows))
                return
            plain = compression == "none"
            opened = decompressed(source, compression)
            for piece in text_pieces(kind, opened, position, infer=adaptor.infer, decimals=adaptor.decimals, seek=plain):
                yield msgspec.structs.replace(piece, amount=piece.position if plain else source.tell())


def found(adaptor: S3, bucket: Bucket, chosen: Namespaces) -> dict[str, S3Object]:
    """The objects by name. Errors: `NotFound` where there are none."""
    objects: dict[str, S3Object] = {}
    for s3_object in bucket.objects():
        if s3_object.key == bucket.prefix and not s3_object.key.endswith("/"):
            name = PurePosixPath(s3_object.key).name
        else:
            name = s3_object.key.removeprefix(bucket.prefix).lstrip("/")
        hidden = any(part.startswith((".", "_")) for part in name.split("/"))
        if (
            name
            and not name.endswith("/")
            and not hidden
            and collection(name) in chosen
            and (adaptor.format != "auto" or known(_path(name)))
        ):
            objects[name] = s3_object
    if not objects:
        raise NotFound(f"There is no object below {bucket.where} to read.", hint="Look at the prefix, the namespace and the keys' ends.")
    return objects


def _identity(objects: dict[str, S3Object]) -> dict[str, Any]:
    return {name: [s3_object.size, s3_object.tag] for name, s3_object in objects.items()}


def _opened(bucket: Bucket, s3_object: S3Object) -> IO[bytes]:
    return cast("IO[bytes]", io.BufferedReader(ObjectFile(bucket, s3_object), _AHEAD))


def _path(key: str) -> Path:
    """A key as the functions for files take it: they use its name only."""
    return cast("Path", PurePosixPath(key))
