"""Writing files so that each message is there exactly once, whatever process dies.

Tasks write temporary files only. The run publishes them: in a folder it renames a part to the offsets that it holds; to a single file it
appends the part, then stores offset and length, so that bytes of a dead run behind that length are cut off.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headwater.adaptors.file.adaptor import File
from headwater.adaptors.file.csv_columns import RULES as CSV
from headwater.adaptors.file.folder import PartFolder
from headwater.adaptors.file.formats import WrittenCompression, WrittenFormat, compression_of, ending
from headwater.adaptors.file.line_writer import TABLE, LineWriter, Temporary, TextWriter
from headwater.adaptors.file.locations import file_locations, folder_location, writes_file, writes_folder
from headwater.adaptors.file.parquet_columns import RULES as PARQUET
from headwater.adaptors.file.parquet_writer import ParquetPartWriter
from headwater.adaptors.file.readback import rows, stored_as
from headwater.adaptors.file.single_file import SingleFile, columns
from headwater.adaptors.file.standard_output import StandardOutput
from headwater.adaptors.file.store import no_folder
from headwater.adaptors.file.target import Target, temporary
from headwater.core.errors import ReadOnly
from headwater.pipeline.claim import SinkClaim
from headwater.pipeline.columns import ColumnRules, Tables
from headwater.pipeline.location import EVERYWHERE, Location
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Part, SinkAdaptor


class FileSink(SinkAdaptor[File]):
    """A folder of parts, one file, or standard output."""

    def check(self, chosen: Namespaces) -> list[str]:
        adaptor = self.adaptor
        if adaptor.standard:
            return ["standard output"]
        near = adaptor.path if adaptor.folder else adaptor.path.parent
        while not near.exists():
            near = near.parent
        if not near.is_dir():
            raise no_folder(near)
        if not os.access(near, os.W_OK):
            raise ReadOnly(f"{near} cannot be written by this process.", hint="Change its permissions, or name another place.")
        return [f"{adaptor.path} can be written"]

    def writer(self, part: Part) -> Temporary:
        """A writer to a temporary name next to the target."""
        adaptor, where = self.adaptor, self._target(part.pipeline, part.sink)
        where.work.mkdir(parents=True, exist_ok=True)
        kind, compression = adaptor.written_format, compression_of(adaptor.path, adaptor.compression)
        names = columns(adaptor) if kind == "csv" and not adaptor.envelope and isinstance(where, SingleFile) else []
        path = where.work / temporary(part)
        return part_writer(path, kind, compression, envelope=adaptor.envelope, names=names, decided=part.columns)

    def ordered(self) -> bool:
        return not self.adaptor.folder

    def gathers(self) -> bool:
        return self.adaptor.folder

    def column_rules(self) -> ColumnRules | None:
        adaptor = self.adaptor  # a single file of CSV has the header that it began with
        return rules_of(adaptor.written_format, envelope=adaptor.envelope) if adaptor.folder else None

    def place(self, namespace: str) -> str:
        return TABLE if self.adaptor.folder else namespace

    def owner(self, pipeline: str, sink: str) -> SinkClaim | None:
        return self._target(pipeline, sink).owner()

    def claim(self, mine: SinkClaim, former: SinkClaim | None = None) -> bool:
        return self._target(mine.pipeline, mine.sink).claim(mine, former)

    def held(self, pipeline: str, sink: str) -> list[tuple[int, int]] | None:
        return self._target(pipeline, sink).held()

    def unnoted(self, pipeline: str, sink: str) -> bool:
        target = self._target(pipeline, sink)
        return target.owner() is None and target.occupied()

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        return self._target(pipeline, sink).begin(epoch)

    def seen(self, part: Part) -> bool:
        return self._target(part.pipeline, part.sink).seen()

    def probe(self, part: Part) -> str:
        return self._target(part.pipeline, part.sink).probe(part)

    def probed(self, part: Part, name: str) -> bool:
        return self._target(part.pipeline, part.sink).probed(name)

    def publish(self, part: Part, receipt: dict[str, Any]) -> None:
        self._target(part.pipeline, part.sink).publish(part, receipt)

    def part_around(self, pipeline: str, sink: str, position: int) -> tuple[int, int] | None:
        return self._target(pipeline, sink).part_around(position)

    def forget(self, pipeline: str, sink: str, position: int, epoch: int) -> None:
        self._target(pipeline, sink).forget(position, epoch)

    def overlaps(self, reads: Sequence[Location]) -> list[Location]:
        adaptor = self.adaptor
        if adaptor.standard:
            return []
        if adaptor.folder:
            name = f"part-{0:020d}-{1:020d}{ending(adaptor.written_format, compression_of(adaptor.path, adaptor.compression))}"
            met = writes_folder(adaptor.path, name, reads)
        else:
            met = writes_file(adaptor.path, reads)
        return [EVERYWHERE] if met else []

    def exclusive(self) -> list[Location]:
        adaptor = self.adaptor
        if adaptor.standard:
            return []
        if not adaptor.folder:
            return file_locations(adaptor.path)
        return [folder_location(adaptor.path)]

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        return rows(self.adaptor)

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        return stored_as(self.adaptor.written_format, self.adaptor.envelope, self.adaptor.infer, data)

    def _target(self, pipeline: str, sink: str) -> Target:
        if self.adaptor.standard:
            return StandardOutput(self.adaptor, pipeline, sink)
        return PartFolder(self.adaptor, pipeline, sink) if self.adaptor.folder else SingleFile(self.adaptor, pipeline, sink)


def part_writer(
    path: Path,
    kind: WrittenFormat,
    compression: WrittenCompression,
    *,
    envelope: bool,
    names: Sequence[str] = (),
    decided: Tables | None = None,
) -> Temporary:
    """The writer of a part in some format. `names`: the columns that a CSV file has already; `decided`: as `Part.columns`."""
    if kind == "parquet":
        return ParquetPartWriter(path, compression="zstd" if compression == "zstd" else "snappy", decided=decided)
    if kind == "jsonl" and not envelope:
        return TextWriter(path, csv=False, envelope=False, compression=compression)
    return LineWriter(path, csv=kind == "csv", envelope=envelope, compression=compression, names=names, decided=decided)


def rules_of(kind: WrittenFormat, *, envelope: bool) -> ColumnRules | None:
    """What the parts of a folder can hold; None where they are no tables."""
    return PARQUET if kind == "parquet" else CSV if kind == "csv" and not envelope else None
