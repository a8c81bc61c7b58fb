"""Files: JSON lines, CSV and Parquet; one file, a folder of them, or standard input and output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from headwater.core.errors import BadConfig, NotFound, ReadOnly
from headwater.pipeline.adaptor import About, CanCopy, CanWrite, CopyPlan, Delivery, Part, Piece, SinkWriter, Slice
from headwater.pipeline.env import Env
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.strict import strict

Format = Literal["auto", "jsonl", "csv", "parquet"]
Compression = Literal["auto", "none", "gzip", "zstd"]
Existing = Literal["append", "overwrite", "fail"]
STANDARD = ("-", "stdin://", "stdout://")


class File(CanCopy, CanWrite, frozen=True, kw_only=True):
    """A file or a folder of files."""

    kind: ClassVar[str] = "file"
    about: ClassVar[About] = About(
        summary="Files of JSON lines, CSV or Parquet; folders; standard input and output.",
        namespace="the file's name within its folder, without the ending that says its format",
        source="Copies. JSON lines are read in slices side by side, Parquet by row groups; resumes at the byte, row or group.",
        sink="Exactly once. A folder gets a part for each range of offsets; a single file is written in order. Changes are appended.",
        sample='file("orders.jsonl")',
    )
    delivery: ClassVar[Delivery] = "exactly once"
    least_batch: ClassVar[int] = 8192

    uri: str | Env
    format: Format = "auto"
    compression: Compression = "auto"
    existing: Existing = "append"
    envelope: bool = False
    id: tuple[str, ...] = ("_id",)
    infer: bool = True

    # -- where ----------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        text = str(self.resolved().uri)
        return Path(text.removeprefix("file://"))

    @property
    def standard(self) -> bool:
        return str(self.resolved().uri) in STANDARD

    @property
    def folder(self) -> bool:
        """Whether the sink is a folder of parts: named with a slash at its end, there already, or of Parquet: that is never appended to."""
        text = str(self.resolved().uri)
        return not self.standard and (text.endswith("/") or self.path.is_dir() or self.written_format == "parquet")

    @property
    def written_format(self) -> Literal["jsonl", "csv", "parquet"]:
        from headwater.adaptors.file.formats import format_of

        return "jsonl" if self.standard and self.format == "auto" else format_of(self.path, self.format)

    def check(self, role: Literal["source", "sink"], chosen: Namespaces) -> list[str]:
        import os

        if self.standard:
            return ["standard input" if role == "source" else "standard output"]
        if role == "source":
            from headwater.adaptors.file.source import found

            files = found(self, chosen)
            return [f"{len(files)} files, {sum(one.stat().st_size for one in files.values()):,} bytes"]
        near = self.path if self.folder else self.path.parent
        while not near.exists():
            near = near.parent
        if not os.access(near, os.W_OK):
            raise ReadOnly(f"{near} cannot be written by this process.", hint="Change its permissions, or name another place.")
        return [f"{self.path} can be written"]

    # -- reading --------------------------------------------------------------------------------------------

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        from headwater.adaptors.file.source import plan

        return plan(self, chosen, slices)

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        from headwater.adaptors.file.source import read

        return read(self, part, position)

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        from headwater.adaptors.file.source import identity

        try:
            return identity(self, chosen) == plan.identity
        except NotFound:
            return False

    # -- writing --------------------------------------------------------------------------------------------

    def writer(self, part: Part) -> SinkWriter:
        from headwater.adaptors.file.sink import writer

        return writer(self, part)

    def ordered(self) -> bool:
        return not self.folder

    def gathers(self) -> bool:
        return self.folder

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        from headwater.adaptors.file.sink import target

        return target(self, pipeline, sink).begin(epoch)

    def publish(self, part: Part, receipt: dict[str, Any]) -> None:
        from headwater.adaptors.file.sink import target

        target(self, part.pipeline, part.sink).publish(part, receipt)

    def forget(self, pipeline: str, sink: str, position: int, epoch: int) -> None:
        from headwater.adaptors.file.sink import target

        target(self, pipeline, sink).forget(position, epoch)

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        from headwater.adaptors.file.readback import rows

        return rows(self)

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        from headwater.adaptors.file.readback import stored_as

        return stored_as(self.written_format, self.envelope, self.infer, data)


@strict
def file(
    uri: str | Env,
    *,
    format: Format = "auto",
    compression: Compression = "auto",
    existing: Existing = "append",
    envelope: bool = False,
    id: str | tuple[str, ...] | list[str] = "_id",
    infer: bool = True,
) -> File:
    """A file, a folder (with a slash at its end), a pattern such as `in/*.csv`, or `-` for standard input and output.

    `format` and `compression` are told by the name's end where they are "auto". `existing`: what a new sink does with what is there.
    `envelope`: write `{"op", "namespace", "timestamp", "data"}` instead of the data alone, so that deletes can be told. `id`: the fields
    that tell documents apart. `infer`: numbers in CSV become numbers.
    """
    for value, kind, name in ((format, Format, "format"), (compression, Compression, "compression"), (existing, Existing, "existing")):
        if value not in get_args(kind):
            raise BadConfig(f"file() knows no {name} {value!r}.", hint=f"Use one of {', '.join(get_args(kind))}.")
    return File(
        uri=uri,
        format=format,
        compression=compression,
        existing=existing,
        envelope=envelope,
        id=(id,) if isinstance(id, str) else tuple(id),
        infer=infer,
    )
