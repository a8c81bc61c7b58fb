"""Reading files: the list of them, their slices, and the documents of each from a position on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec

from headwater.adaptors.file.adaptor import File
from headwater.adaptors.file.csv_reader import text_pieces
from headwater.adaptors.file.formats import collection, compression_of, decompressed, format_of, known, legible
from headwater.adaptors.file.json_lines import line_pieces
from headwater.adaptors.file.locations import is_work, read_locations
from headwater.adaptors.file.parquet_reader import group_rows, parquet_pieces
from headwater.adaptors.pieces import with_floats
from headwater.core.errors import BadConfig, BadInput, Damaged, Differs, NotFound
from headwater.pipeline.location import Location
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import CopyPlan, Piece, Slice, SourceAdaptor
from headwater.pipeline.source_progress import CopySize, Unit

_LEAST_SLICE = 8 << 20
_CHANGED = "Put it back as it was, or read it anew from its beginning with `headwater pipeline run FILE --again`."


class FileSource(SourceAdaptor[File]):
    """Files as they were when the copy began: one that changes meanwhile is an error."""

    def check(self, chosen: Namespaces) -> list[str]:
        if self.adaptor.standard:
            return ["standard input"]
        files = found(self.adaptor, chosen)
        return [f"{len(files)} files, {sum(path.stat().st_size for path in files.values()):,} bytes"]

    def locations(self, chosen: Namespaces) -> list[Location]:
        return [] if self.adaptor.standard else read_locations(self.adaptor.path, found(self.adaptor, chosen).values(), chosen)

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        adaptor = self.adaptor
        if adaptor.standard:
            return CopyPlan(identity={"standard": "input"}, slices=(Slice("stdin", {}),), ids={"stdin": adaptor.id}, repeats=True)
        files = found(adaptor, chosen)
        stamps = {name: _stamp(path) for name, path in files.items()}
        parts: list[Slice] = []
        for name, path in files.items():
            known_as = {"path": str(path.absolute()), "stamp": stamps[name]}
            parts += [Slice(collection(name), {**known_as, **spec}, size) for spec, size in _cut(adaptor, path, slices)]
        kinds = {format_of(path, adaptor.format) == "parquet" for path in files.values()}
        unit: Unit = "documents" if kinds == {True} else "bytes"
        size = CopySize(total=sum(part.size or 0 for part in parts), unit=unit) if len(kinds) == 1 else None  # rows and bytes have no sum
        if size is None:
            parts = [msgspec.structs.replace(part, size=None) for part in parts]
        ids = dict.fromkeys(map(collection, files), adaptor.id)
        return CopyPlan(identity=stamps, slices=tuple(parts), ids=ids, size=size, repeats=len(parts) == len(files))

    def unit(self, part: Slice) -> tuple[str, Any]:
        return part.spec.get("path", part.namespace), part.spec.get("stamp")

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        try:
            return self._identity(chosen) == plan.identity
        except NotFound:
            return False

    def _identity(self, chosen: Namespaces) -> dict[str, Any]:
        if self.adaptor.standard:
            return {"standard": "input"}
        return {name: _stamp(path) for name, path in found(self.adaptor, chosen).items()}

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        """The documents of a slice. Errors: `Differs` for a file that is not the planned one; `Damaged`."""
        adaptor = self.adaptor
        if "path" not in part.spec:
            yield from text_pieces(adaptor.format, sys.stdin.buffer, position, infer=adaptor.infer, decimals=adaptor.decimals)
            return
        path, stamp = Path(part.spec["path"]), part.spec.get("stamp")
        kind, compression = format_of(path, adaptor.format), compression_of(path, adaptor.compression)
        _unchanged(path, stamp)  # before it is opened, too: a task may see another file here, or none
        try:
            with legible(path, kind if kind == "parquet" else compression):
                for piece in self._pieces(path, part.spec, position):
                    _unchanged(path, stamp)  # after each piece: bytes of another file are not returned
                    yield piece
        except Damaged:
            _unchanged(path, stamp)
            raise
        _unchanged(path, stamp)

    def _pieces(self, path: Path, spec: dict[str, Any], position: Any) -> Iterator[Piece]:
        adaptor = self.adaptor
        kind, compression = format_of(path, adaptor.format), compression_of(path, adaptor.compression)
        if kind == "parquet":
            yield from parquet_pieces(path, position, spec.get("groups"))
        elif kind == "jsonl" and compression == "none":
            begin, end = spec.get("bytes") or (0, path.stat().st_size)
            for piece in line_pieces(path, begin, end, position):
                read = with_floats(piece) if adaptor.decimals == "float" else piece
                yield msgspec.structs.replace(read, amount=piece.position - begin)
        else:
            # The amount is in bytes of the file itself: the size of its content is not known before its end.
            with path.open("rb") as stored, decompressed(stored, compression) as opened:
                for piece in text_pieces(kind, opened, position, infer=adaptor.infer, decimals=adaptor.decimals):
                    yield msgspec.structs.replace(piece, amount=stored.tell())


def found(adaptor: File, chosen: Namespaces) -> dict[str, Path]:
    """The files by name. Errors: `NotFound` where there are none; `BadInput` for a name that cannot be a namespace."""
    path = adaptor.path
    if is_work(path.resolve()):
        raise BadConfig(f"{path} lies in the folder where a sink keeps its unfinished work.", hint="Read what the sink has written.")
    if any(c in str(path) for c in "*?[") and not path.exists():
        plain = list(takewhile(lambda name: not any(c in name for c in "*?["), path.parts))
        base = Path(*plain)
        every = ((str(entry.relative_to(base)), entry) for entry in sorted(base.glob(str(Path(*path.parts[len(plain) :])))))
        files = {name: entry for name, entry in every if entry.is_file() and not is_work(Path(name))}
    elif path.is_dir():
        files = {
            str(entry.relative_to(path)): entry
            for entry in sorted(path.rglob("*"))
            if entry.is_file() and not any(name.startswith((".", "_")) for name in entry.relative_to(path).parts)
        }
        if adaptor.format == "auto":
            files = {name: entry for name, entry in files.items() if known(entry)}
    elif path.exists():
        files = {path.name: path}
    else:
        files = {}
    files = {name: entry for name, entry in files.items() if entry.is_file() and collection(name) in chosen}
    if not files:
        raise NotFound(f"There is no file {path} to read.", hint="Look at the path; a relative one begins where the pipeline is run.")
    for file in files.values():
        try:
            str(file.absolute()).encode()
        except UnicodeEncodeError as error:
            shown = str(file).encode("utf-8", "backslashreplace").decode()
            raise BadInput(f"The name of the file {shown} is not in UTF-8.", hint="Rename it, or leave it out with namespace=.") from error
    return files


def _stamp(path: Path) -> list[int]:
    """The inode, the size and the modification time."""
    now = path.stat()
    return [now.st_ino, now.st_size, now.st_mtime_ns]


def _cut(adaptor: File, path: Path, slices: int) -> list[tuple[dict[str, Any], int]]:
    """A file's slices, each with its size: the rows of Parquet, else bytes."""
    size, kind = path.stat().st_size, format_of(path, adaptor.format)
    if kind == "parquet":
        with legible(path, kind):
            rows = group_rows(path)
        return [({"groups": [begin, end]}, sum(rows[begin:end])) for begin, end in _parts(len(rows), slices)]
    if kind == "jsonl" and compression_of(path, adaptor.compression) == "none":
        return [({"bytes": [begin, end]}, end - begin) for begin, end in _parts(size, min(slices, size // _LEAST_SLICE))]
    return [({}, size)]


def _parts(length: int, count: int) -> list[tuple[int, int]]:
    """About equal ranges of a length: at most `count`, and at least one."""
    count = max(1, min(count, length))
    return [(length * i // count, length * (i + 1) // count) for i in range(count)]


def _unchanged(path: Path, stamp: list[int] | None) -> None:
    try:
        changed = _stamp(path) != (stamp or _stamp(path))
    except FileNotFoundError as error:
        raise Differs(f"{path} is gone since its copy began.", hint=_CHANGED) from error
    if changed:
        raise Differs(f"{path} has changed since its copy began.", hint=_CHANGED)
