"""Reading files: which there are, how they are cut, and each format's documents from a position on."""

from __future__ import annotations

import csv
import operator
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from headwater.core.errors import Differs, NotFound
from headwater.pipeline import values
from headwater.pipeline.adaptor import CopyPlan, Piece, Slice
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.systems.file.formats import compression_of, format_of, known, open_plain

if TYPE_CHECKING:
    from headwater.pipeline.systems.file.adaptor import File

_BLOCK = 2 << 20
_LEAST_SLICE = 8 << 20
_INTEGER = re.compile(r"-?(?:0|[1-9]\d*)")
_DECIMAL = re.compile(r"-?(?:0|[1-9]\d*)\.\d+")


class _Object(msgspec.Struct):
    """Decoding into this proves that a line is a JSON object, at a fraction of the cost of building it."""


_prove = msgspec.json.Decoder(_Object).decode


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
            yield from _lines(path, begin, end, position)
        else:
            with open_plain(path, compression) as opened:
                yield from stream_pieces(opened, position)
    except FileNotFoundError as error:
        raise Differs(f"{path} is gone since its copy began.", hint="Put it back, or begin anew with `run --again`.") from error


def _lines(path: Path, begin: int, end: int, position: Any) -> Iterator[Piece]:
    """Lines that begin in [begin, end): blocks cut at line ends, so that slices fit together whatever lines they cut."""
    fd = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        at = position if position is not None else _line_at(fd, begin, size)
        block = _BLOCK
        while at < end:
            data = os.pread(fd, block, at)
            if not data:
                raise Differs(f"{path} has become shorter since its copy began.", hint="Put it back, or begin anew with `run --again`.")
            if at + len(data) < size:
                cut = data.rfind(b"\n") + 1
                if not cut:
                    block *= 2  # a line longer than a block
                    continue
                data = data[:cut]
            if at + len(data) > end:  # keep the lines that begin before the end
                cut = data.find(b"\n", max(0, end - at - 1)) + 1
                data = data[:cut] if cut else data
            following = at + len(data)
            documents, bad = line_documents(data, partial(_number_in_block, fd, at))
            yield Piece(position=following, values=documents, bad=bad)
            at, block = following, _BLOCK
    finally:
        os.close(fd)


def line_documents(data: bytes, number: Callable[[int], int]) -> tuple[list[bytes], dict[int, str]]:
    """The documents of whole lines; what is no JSON object is kept as it is, with what is wrong with it and its line's number."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    checked = _utf8(data)
    if checked:
        with suppress(msgspec.DecodeError):
            deque(map(_prove, lines), 0)  # the rule: nothing is wrong
            return lines, {}
    documents: list[bytes] = []
    bad: dict[int, str] = {}
    add = documents.append
    for index, line in enumerate(lines):
        try:
            if not checked:
                line.decode()
            _prove(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if not line.strip():
                continue
            bad[len(documents)] = f"Line {number(index)} is no JSON object: {error}."
        add(line)
    return documents, bad


def _utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _line_at(fd: int, begin: int, size: int) -> int:
    """Where the first line that begins at or after `begin` does."""
    if begin == 0:
        return 0
    at = begin - 1
    while at < size:
        data = os.pread(fd, 1 << 16, at)
        newline = data.find(b"\n")
        if newline >= 0:
            return at + newline + 1
        at += len(data)
    return size


def _line_number(fd: int, at: int) -> int:
    """The number of the line that begins at a byte. Counted only when something is wrong: slices do not know line numbers."""
    count, here = 1, 0
    while here < at:
        data = os.pread(fd, min(1 << 20, at - here), here)
        if not data:
            break
        count += data.count(b"\n")
        here += len(data)
    return count


def _number_in_block(fd: int, at: int, index: int) -> int:
    return _line_number(fd, at) + index


def stream_pieces(source: IO[bytes], position: Any) -> Iterator[Piece]:
    """Lines of a stream that cannot be entered in its middle: what was read before is read again and left out."""
    done = int(position or 0)
    number, pending, here = 1, b"", 0
    while True:
        data = source.read(_BLOCK)
        if not data and not pending:
            return
        whole = pending + data
        cut = whole.rfind(b"\n") + 1 if data else len(whole)
        pending, whole = whole[cut:], whole[:cut]
        if not whole:
            continue
        here += len(whole)
        first, number = number, number + whole.count(b"\n")
        if here > done:
            documents, bad = line_documents(whole, partial(operator.add, first))
            yield Piece(position=here, values=documents, bad=bad)


def csv_pieces(infer: bool, source: IO[bytes], position: Any) -> Iterator[Piece]:
    """Rows as objects by the names in the first row. An empty cell is null; numbers become numbers unless `infer` is off."""
    done = int(position or 0)
    counted = [0, 0]  # bytes and lines taken by the reader

    def lines() -> Iterator[str]:
        for line in source:
            counted[0] += len(line)
            counted[1] += 1
            yield line.decode("utf-8-sig" if counted[1] == 1 else "utf-8", "surrogateescape")

    rows = csv.reader(lines(), strict=True)
    names = next(rows, [])
    documents: list[bytes] = []
    bad: dict[int, str] = {}
    size = 0
    cell = _cell if infer else _text
    while True:
        line = counted[1] + 1
        try:
            row = next(rows)
        except StopIteration:
            break
        except csv.Error as error:
            row, wrong = [], f"Line {line} is no CSV: {error}."
        else:
            wrong = "" if len(row) == len(names) else f"Line {line} has {len(row)} cells, its header {len(names)}."
        if counted[0] <= done or (not row and not wrong):
            continue
        try:
            document = values.encode(dict(zip(names, map(cell, row), strict=False)))
        except UnicodeEncodeError:
            wrong = f"Line {line} is not in UTF-8."
            document = values.encode({"line": [c.encode("utf-8", "replace").decode("utf-8", "replace") for c in row]})
        if wrong:
            bad[len(documents)] = wrong
        documents.append(document)
        size += len(document)
        if size > _BLOCK:
            yield Piece(position=counted[0], values=documents, bad=bad)
            documents, bad, size = [], {}, 0
    if documents:
        yield Piece(position=counted[0], values=documents, bad=bad)


def _text(cell: str) -> str | None:
    return cell or None


def _cell(cell: str) -> int | float | Decimal | str | None:
    if not cell:
        return None
    if cell[0] in "-0123456789":
        if _INTEGER.fullmatch(cell):
            return int(cell)
        if _DECIMAL.fullmatch(cell):
            number = float(cell)
            return number if repr(number) == cell else Decimal(cell)
    return cell


def parquet_pieces(path: Path | IO[bytes], groups: list[int], position: Any) -> Iterator[Piece]:
    """Row groups as documents. The position is a group and the rows of it that were read."""
    import pyarrow.parquet as pq

    begin, done = position or (groups[0], 0)
    with pq.ParquetFile(path) as opened:
        for group in range(begin, groups[1]):
            row = 0
            for batch in opened.iter_batches(batch_size=8192, row_groups=[group]):
                row += len(batch)
                if group == begin and row <= done:
                    continue
                documents = [values.encode(values.extended(one)) for one in batch.to_pylist()]
                yield Piece(position=[group, row], values=documents)


def read_back(adaptor: File, source: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The documents of a file that a sink wrote."""
    pieces = csv_pieces(adaptor.infer, source, None) if adaptor.written_format == "csv" else stream_pieces(source, None)
    for piece in pieces:
        for one in piece.values:
            document = values.decode(one)
            yield document["data"] if adaptor.envelope else document
