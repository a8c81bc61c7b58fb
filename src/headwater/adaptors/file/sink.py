"""Writing files so that each message is there once, whatever dies.

Tasks write to temporary names only. The run makes them count: a folder's part by renaming it to the offsets that it holds, a single file by
appending the part and then noting the offset and the length, so that what a dead run left behind the noted length is cut off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.adaptors.file.folder import PartFolder
from headwater.adaptors.file.formats import compression_of
from headwater.adaptors.file.single import Single, columns
from headwater.adaptors.file.standard import Standard
from headwater.adaptors.file.tables import TableWriter
from headwater.adaptors.file.target import Target, temporary
from headwater.adaptors.file.writers import LineWriter, TextWriter
from headwater.pipeline.adaptor import Part, SinkWriter

if TYPE_CHECKING:
    from headwater.adaptors.file.adaptor import File


def writer(adaptor: File, part: Part) -> SinkWriter:
    """A writer to a temporary name next to the target."""
    where = target(adaptor, part.pipeline, part.sink)
    kind, compression = adaptor.written_format, compression_of(adaptor.path, adaptor.compression)
    where.work.mkdir(parents=True, exist_ok=True)
    path = where.work / temporary(part)
    if kind == "parquet":
        return TableWriter(path, compression="zstd" if compression == "zstd" else "snappy")
    if kind == "jsonl" and not adaptor.envelope:
        return TextWriter(path, csv=False, envelope=False, compression=compression)
    names = columns(adaptor) if kind == "csv" and not adaptor.envelope and isinstance(where, Single) else []
    return LineWriter(path, csv=kind == "csv", envelope=adaptor.envelope, compression=compression, names=names)


def target(adaptor: File, pipeline: str, sink: str) -> Target:
    if adaptor.standard:
        return Standard(adaptor, pipeline, sink)
    return PartFolder(adaptor, pipeline, sink) if adaptor.folder else Single(adaptor, pipeline, sink)
