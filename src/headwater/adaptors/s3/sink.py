"""Writing ranges of the log to objects. A task formats a part into a local file and uploads it; the part counts when the run completes it.

An upload is a multipart upload, which is invisible until it is completed. A new run first stores its epoch, then aborts every upload below
the prefix, and only then lists the parts. So an older run cannot add a part later: it checks the epoch before it completes an upload, and
the uploads that it began earlier are aborted.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from headwater.adaptors.converting_writer import blaming_no_message
from headwater.adaptors.file.line_writer import TABLE
from headwater.adaptors.file.parquet_summary import write_summary
from headwater.adaptors.file.readback import read_as, stored_as
from headwater.adaptors.file.sink import part_writer, rules_of
from headwater.adaptors.parts.offset_parts import OffsetParts
from headwater.adaptors.parts.ownership import PartsOwnership
from headwater.adaptors.s3.adaptor import S3
from headwater.adaptors.s3.connection import PART, Bucket
from headwater.adaptors.s3.locations import prefix_locations, writes_prefix
from headwater.adaptors.s3.source import S3Source
from headwater.adaptors.s3.store import WORK, PrefixStore
from headwater.core.errors import Conflict, Denied, HeadwaterError, NotFound
from headwater.core.files import explained
from headwater.pipeline import values
from headwater.pipeline.claim import SinkClaim, checked_owner
from headwater.pipeline.columns import ColumnRules
from headwater.pipeline.location import EVERYWHERE, Location
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Batch, Part, SinkAdaptor, SinkWriter
from headwater.pipeline.source_adaptor import Slice


class S3Sink(SinkAdaptor[S3]):
    """An object for each range of offsets."""

    def check(self, chosen: Namespaces) -> list[str]:
        with Bucket(self.adaptor) as bucket:
            bucket.try_to_write()
            return [f"{bucket.where} can be written"]

    def gathers(self) -> bool:
        return True

    def writer(self, part: Part) -> SinkWriter:
        try:
            folder = Path(tempfile.mkdtemp(prefix="headwater-s3-"))
        except OSError as error:
            raise explained(error, error.filename or "the folder for temporary files") from error
        adaptor = self.adaptor
        kind, compression = adaptor.written_format, adaptor.written_compression
        inner = part_writer(folder / "part", kind, compression, envelope=adaptor.envelope, decided=part.columns)
        return (S3TextWriter if inner.takes_text else S3Writer)(adaptor, part, folder, inner)

    def owner(self, pipeline: str, sink: str) -> SinkClaim | None:
        with Bucket(self.adaptor) as bucket:
            return _ownership(PrefixStore(bucket), pipeline, sink).found()

    def claim(self, mine: SinkClaim, former: SinkClaim | None = None) -> bool:
        with Bucket(self.adaptor) as bucket:
            store = PrefixStore(bucket)
            ownership = _ownership(store, mine.pipeline, mine.sink)
            owner = ownership.found()
            checked_owner(owner, mine, former, store.where)
            if owner is None:
                _parts(self.adaptor, store).leave("unknown")
            elif not owner.same_log(mine):
                _parts(self.adaptor, store).leave(owner.generation)
            ownership.claim(mine, former)
        return True

    def held(self, pipeline: str, sink: str) -> list[tuple[int, int]] | None:
        with Bucket(self.adaptor) as bucket:
            store = PrefixStore(bucket)
            return _parts(self.adaptor, store).held() if _ownership(store, pipeline, sink).mine() else []

    def unnoted(self, pipeline: str, sink: str) -> bool:
        with Bucket(self.adaptor) as bucket:
            store = PrefixStore(bucket)
            return _ownership(store, pipeline, sink).found() is None and bool(_parts(self.adaptor, store).held())

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        with Bucket(self.adaptor) as bucket:
            store = PrefixStore(bucket)
            ownership, parts = _ownership(store, pipeline, sink), _parts(self.adaptor, store)
            owner = ownership.found()
            ownership.refuse_other(owner)
            if owner is None:
                parts.leave("unknown")  # whoever deleted the note: the offsets may be another log's
            ownership.take(epoch)
            store.abort_uploads()
            return parts.recovered()

    def publish(self, part: Part, receipt: dict[str, Any]) -> None:
        """Make a part visible. The first of its objects is completed last: it marks the part as complete."""
        with Bucket(self.adaptor) as bucket, _of_the_bucket():
            store = PrefixStore(bucket)
            _ownership(store, part.pipeline, part.sink).check(part.epoch)
            if self.adaptor.written_format == "parquet" and part.columns is not None and TABLE in part.columns:
                write_summary(store, part.columns[TABLE])
            for upload in reversed(receipt["uploads"]):
                store.complete(upload)
            if not receipt["uploads"]:
                _parts(self.adaptor, store).note_empty(part, int(receipt["end"]))

    def part_around(self, pipeline: str, sink: str, position: int) -> tuple[int, int] | None:
        with Bucket(self.adaptor) as bucket:
            return _parts(self.adaptor, PrefixStore(bucket)).around(position)

    def forget(self, pipeline: str, sink: str, position: int, epoch: int) -> None:
        with Bucket(self.adaptor) as bucket:
            store = PrefixStore(bucket)
            _ownership(store, pipeline, sink).check(epoch)
            _parts(self.adaptor, store).forget(position)

    def overlaps(self, reads: Sequence[Location]) -> list[Location]:
        return [EVERYWHERE] if writes_prefix(self.adaptor, reads) else []

    def exclusive(self) -> list[Location]:
        return prefix_locations(self.adaptor)

    def column_rules(self) -> ColumnRules | None:
        return rules_of(self.adaptor.written_format, envelope=self.adaptor.envelope)

    def place(self, namespace: str) -> str:
        return TABLE  # one prefix holds all namespaces

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        return stored_as(self.adaptor.written_format, self.adaptor.envelope, self.adaptor.infer, data)

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        """The documents of all parts, in the order of offsets, then what was sent again."""
        adaptor = self.adaptor
        with Bucket(adaptor) as bucket:
            parts = [s3_object for kind in ("part", "replay") for s3_object in bucket.objects(f"{bucket.folder}{kind}-")]
        source = S3Source(msgspec.structs.replace(adaptor, decimals="decimal"))
        for part in parts:
            for piece in source.read(Slice("", part._asdict()), None):
                for text in piece.values:
                    yield read_as(adaptor.written_format, adaptor.envelope, values.decode(text))


def _parts(adaptor: S3, store: PrefixStore) -> OffsetParts:
    return OffsetParts(store, WORK, adaptor.ending)


def _ownership(store: PrefixStore, pipeline: str, sink: str) -> PartsOwnership:
    return PartsOwnership(store, f"{WORK}owner.json", pipeline, sink)


def _of_the_bucket() -> AbstractContextManager[None]:
    # A conflict here means that the store is busy with the same object: a retry helps.
    return blaming_no_message(Conflict, Denied, NotFound)


class S3Writer(SinkWriter):
    """Writes files with another writer, and uploads them."""

    def __init__(self, adaptor: S3, part: Part, folder: Path, inner: SinkWriter) -> None:
        self._adaptor, self._part, self._folder, self._inner = adaptor, part, folder, inner

    def write(self, batch: Batch) -> None:
        self._inner.write(batch)

    def write_text(self, batch: Batch) -> bool:
        return self._inner.write_text(batch)

    def finish(self) -> dict[str, Any]:
        receipt = self._inner.finish()
        if not receipt:
            return {}
        files = [Path(path) for path in receipt["files"]]
        uploads: list[dict[str, Any]] = []
        if files:
            with Bucket(self._adaptor) as bucket, _of_the_bucket():
                store = PrefixStore(bucket)
                for number, file in enumerate(files):
                    key = store.key(_parts(self._adaptor, store).name(self._part, receipt["end"], number))
                    uploads.append(_uploaded(bucket, key, file))
        return {"uploads": uploads, "end": receipt["end"]}

    def close(self) -> None:
        try:
            self._inner.close()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)


class S3TextWriter(S3Writer):
    """The same for documents as JSON text."""

    takes_text: ClassVar[bool] = True


def _uploaded(bucket: Bucket, key: str, file: Path) -> dict[str, Any]:
    """Upload a file. It is invisible until the upload is completed."""
    client = bucket.client
    upload = bucket.ask(client.create_multipart_upload, Key=key)["UploadId"]
    tags: list[str] = []
    size = max(PART, -(-file.stat().st_size // 9_000))
    try:
        with file.open("rb") as source:
            while data := source.read(size):
                answer: Any = bucket.ask(client.upload_part, Key=key, UploadId=upload, PartNumber=len(tags) + 1, Body=data)
                tags.append(answer["ETag"])
    except BaseException:
        with suppress(HeadwaterError):  # its parts would be billed until the next run begins
            bucket.ask(client.abort_multipart_upload, Key=key, UploadId=upload)
        raise
    return {"key": key, "upload": upload, "tags": tags}
