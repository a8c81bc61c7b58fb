"""Files: JSON lines, CSV and Parquet; one file, a folder of them, or standard input and output."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from headwater.adaptors.file.formats import Compression, Format, WrittenFormat, format_of
from headwater.pipeline.adaptor import About
from headwater.pipeline.env import Env
from headwater.pipeline.location import FILES
from headwater.pipeline.options import DecimalsOption, Means, Names, factory
from headwater.pipeline.sink_adaptor import CanWrite, Delivery
from headwater.pipeline.source_adaptor import CanCopy

STANDARD = ("-", "stdin://", "stdout://")


class File(CanCopy, CanWrite, frozen=True, kw_only=True):
    """A file or a folder of files."""

    kind: ClassVar[str] = "file"
    about: ClassVar[About] = About(
        summary="Files of JSON lines, CSV or Parquet; folders; standard input and output.",
        namespace="the file's name within its folder, without the ending that says its format",
        source="Copies. JSON lines are read in parallel slices, Parquet by row groups; resumes at the byte, row or group.",
        sink="Exactly once. A folder gets a part for each range of offsets; a single file is written in order. Changes are appended. "
        "All parts of a Parquet folder have one schema, and Spark reads it whole.",
        sample='file("orders.jsonl")',
    )
    delivery: ClassVar[Delivery] = "exactly once"
    stores: ClassVar[tuple[str, ...]] = (FILES,)
    least_batch: ClassVar[int] = 8192
    source_class: ClassVar[str] = "headwater.adaptors.file.source:FileSource"
    sink_class: ClassVar[str] = "headwater.adaptors.file.sink:FileSink"

    uri: Annotated[
        str | Env,
        Means("A file, a folder (with a slash at its end), a pattern such as `in/*.csv`, or `-` for standard input and output.", path=True),
    ]
    format: Annotated[Format, Means("The format; `auto`: by the file's suffix.")] = "auto"
    compression: Annotated[Compression, Means("The compression; `auto`: by the file's suffix.")] = "auto"
    existing: Annotated[Literal["append", "overwrite", "fail"], Means("What a new sink does with existing files.")] = "append"
    envelope: Annotated[
        bool, Means('Write `{"op", "namespace", "timestamp", "data"}` instead of the data alone, so that deletes can be written.')
    ] = False
    id: Annotated[Names, Means("The fields of a document's id.")] = ("_id",)
    infer: Annotated[bool, Means("Numbers in CSV become numbers.")] = True
    decimals: DecimalsOption = "decimal"

    @property
    def path(self) -> Path:
        return Path(str(self.resolved().uri).removeprefix("file://"))

    @property
    def standard(self) -> bool:
        return str(self.resolved().uri) in STANDARD

    @property
    def folder(self) -> bool:
        """Whether the sink is a folder of parts: it ends with a slash, is a folder already, or is Parquet, which cannot be appended to."""
        text = str(self.resolved().uri)
        return not self.standard and (text.endswith("/") or self.path.is_dir() or self.written_format == "parquet")

    @property
    def written_format(self) -> WrittenFormat:
        return "jsonl" if self.standard and self.format == "auto" else format_of(self.path, self.format)


file = factory(File)
