"""Writing a part of the log to an object: formatted into a local file, then uploaded. The upload counts once the run completes it."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.adaptors.file.tables import TableWriter
from headwater.adaptors.file.writers import LineWriter, TextWriter
from headwater.adaptors.s3.connection import PART, Bucket
from headwater.adaptors.s3.parts import named
from headwater.core.errors import Conflict, Denied, HeadwaterError, NotFound, Unreachable
from headwater.core.files import explained
from headwater.pipeline.adaptor import Batch, Part, SinkWriter

if TYPE_CHECKING:
    from headwater.adaptors.s3.adaptor import S3


def writer(adaptor: S3, part: Part) -> SinkWriter:
    try:
        folder = Path(tempfile.mkdtemp(prefix="headwater-s3-"))
    except OSError as error:
        raise explained(error, error.filename or "the folder for temporary files") from error
    kind, compression = adaptor.written_format, "none" if adaptor.compression == "auto" else adaptor.compression
    if kind == "parquet":
        return S3TextWriter(adaptor, part, folder, TableWriter(folder / "part", compression="zstd" if compression == "zstd" else "snappy"))
    if kind == "jsonl" and not adaptor.envelope:
        return S3TextWriter(adaptor, part, folder, TextWriter(folder / "part", csv=False, envelope=False, compression=compression))
    inner = LineWriter(folder / "part", csv=kind == "csv", envelope=adaptor.envelope, compression=compression)
    return S3Writer(adaptor, part, folder, inner)


class S3Writer(SinkWriter):
    """Gives what it gets to a writer of files, and uploads what comes of it."""

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
        files = [Path(one) for one in receipt["files"]]
        uploads: list[dict[str, Any]] = []
        if files:
            with Bucket(self._adaptor) as bucket:
                for number, file in enumerate(files):
                    key = bucket.folder + named(self._adaptor, self._part, receipt["end"], number)
                    try:
                        uploads.append(_uploaded(bucket, key, file))
                    except (Conflict, Denied, NotFound) as error:  # of the bucket, not of a message
                        raise Unreachable(error.message, hint=error.hint) from error
        return {"uploads": uploads, "end": receipt["end"]}

    def close(self) -> None:
        try:
            self._inner.close()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)


class S3TextWriter(S3Writer):
    """The same for documents that go as they are."""

    takes_text: ClassVar[bool] = True


def _uploaded(bucket: Bucket, key: str, file: Path) -> dict[str, Any]:
    """An upload that is whole, and that nobody sees until it is completed."""
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
        with suppress(HeadwaterError):  # what is left of it would be paid for until the next run begins
            bucket.ask(client.abort_multipart_upload, Key=key, UploadId=upload)
        raise
    return {"key": key, "upload": upload, "tags": tags}
