"""Reading files: which there are, how they are cut, and each format's documents from a position on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from headwater.core.errors import Differs, NotFound
from headwater.pipeline import values
from headwater.pipeline.adaptor import CopyPlan, Piece, Slice
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.systems.file.cells import csv_pieces
from headwater.pipeline.systems.file.formats import compression_of, format_of, known, open_plain
from headwater.pipeline.systems.file.groups import parquet_pieces
from headwater.pipeline.systems.file.lines import line_documents, line_pieces, stream_pieces

if TYPE_CHECKING:
    from headwater.pipeline.systems.file.adaptor import File

__all__ = ["csv_pieces", "found", "identity", "line_documents", "parquet_pieces", "plan", "read", "read_back", "stream_pieces"]

_LEAST_SLICE = 8 << 20


# -- planning -----------------------------------------------------------------------------------------------


def found(adaptor: File, chosen: Namespaces) -> dict[str, Path]:
    """The files by namespace. Errors: `NotFound` where there are none."""
    path = adaptor.path
    if any(c in str(path) for c in "*?["):
        plain = list(takewhile(lambda name: not any(c in name for c in "*?["), path.parts))
        base = Path(*plain)
        files = {str(one.relative_to(base)): one for one in sorted(base.glob(str(Path(*path.parts[len(plain) :]))))}
    elif path.is_dir():
        files = {
            str(one.relative_to(path)): one
            for one in sorted(path.rglob("*"))
            if one.is_file() and not any(name.startswith((".", "_")) for name in one.relative_to(path).parts)
        }
        if adaptor.format == "auto":
            files = {name: one for name, one in files.items() if known(one)}
    elif path.exists():
        files = {path.name: path}
    else:
        files = {}
    files = {name: one for name, one in files.items() if one.is_file() and name in chosen}
    if not files:
        raise NotFound(f"There is no file {path} to read.", hint="Look at the path; a relative one begins where the pipeline is run.")
    return files


def identity(adaptor: File, chosen: Namespaces) -> dict[str, Any]:
    """What tells whether the files are still the same: inode, size and time of change."""
    if adaptor.standard:
        return {"standard": "input"}
    return {name: [s.st_ino, s.st_size, s.st_mtime_ns] for name, one in found(adaptor, chosen).items() if (s := one.stat())}


def plan(adaptor: File, chosen: Namespaces, slices: int) -> CopyPlan:
    if adaptor.standard:
        return CopyPlan(identity={"standard": "input"}, slices=(Slice("stdin", {}),), ids={"stdin": adaptor.id})
    files = found(adaptor, chosen)
    parts: list[Slice] = []
    for name, path in files.items():
        parts += [Slice(name, {"path": str(path.absolute()), **spec}) for spec in _cut(adaptor, path, slices)]
    return CopyPlan(identity=identity(adaptor, chosen), slices=tuple(parts), ids=dict.fromkeys(files, adaptor.id))


def _cut(adaptor: File, path: Path, slices: int) -> list[dict[str, Any]]:
    size, kind = path.stat().st_size, format_of(path, adaptor.format)
    if kind == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as opened:
            groups = opened.num_row_groups
        count = max(1, min(slices, groups))
        return [{"groups": [groups * i // count, groups * (i + 1) // count]} for i in range(count)]
    if kind == "jsonl" and compression_of(path, adaptor.compression) == "none":
        count = max(1, min(slices, size // _LEAST_SLICE))
        return [{"bytes": [size * i // count, size * (i + 1) // count]} for i in range(count)]
    return [{}]


# -- reading ------------------------------------------------------------------------------------------------


def read(adaptor: File, part: Slice, position: Any) -> Iterator[Piece]:
    """The documents of a slice from a position on."""
    if "path" not in part.spec:
        kind = "jsonl" if adaptor.format == "auto" else adaptor.format
        source: IO[bytes] = sys.stdin.buffer
        yield from csv_pieces(adaptor.infer, source, position) if kind == "csv" else stream_pieces(source, position)
        return
    path = Path(part.spec["path"])
    try:
        kind, compression = format_of(path, adaptor.format), compression_of(path, adaptor.compression)
        if kind == "parquet":
            yield from parquet_pieces(path, part.spec["groups"], position)
        elif kind == "csv":
            with open_plain(path, compression) as opened:
                yield from csv_pieces(adaptor.infer, opened, position)
        elif compression == "none":
            begin, end = part.spec["bytes"]
            yield from line_pieces(path, begin, end, position)
        else:
            with open_plain(path, compression) as opened:
                yield from stream_pieces(opened, position)
    except FileNotFoundError as error:
        raise Differs(f"{path} is gone since its copy began.", hint="Put it back, or begin anew with `run --again`.") from error


def read_back(adaptor: File, source: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The documents of a file that a sink wrote."""
    pieces = csv_pieces(adaptor.infer, source, None) if adaptor.written_format == "csv" else stream_pieces(source, None)
    for piece in pieces:
        for one in piece.values:
            document = values.decode(one)
            yield document["data"] if adaptor.envelope else document
