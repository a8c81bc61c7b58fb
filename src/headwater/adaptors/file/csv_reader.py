"""Reading documents from CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import IO, Any

from headwater.adaptors.file.json_lines import KEPT, stream_pieces, too_long
from headwater.adaptors.pieces import PieceBuffer, with_floats
from headwater.core.errors import BadInput
from headwater.pipeline import values
from headwater.pipeline.source_adaptor import LONGEST, Piece
from headwater.pipeline.values import Decimals

_BLOCK = 2 << 20
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")  # as JSON writes numbers
_DIGITS = 4300  # of the longest integer that Python parses; a longer one stays text


def text_pieces(
    kind: str, source: IO[bytes], position: Any, *, infer: bool, decimals: Decimals = "decimal", seek: bool = False
) -> Iterator[Piece]:
    """The documents of CSV or JSON lines. `seek`: JSON lines are read from the position on; otherwise everything before is read again."""
    pieces = csv_pieces(infer, source, position) if kind == "csv" else stream_pieces(source, position, seek=seek)
    return map(with_floats, pieces) if decimals == "float" else pieces


def csv_pieces(infer: bool, source: IO[bytes], position: Any, *, usual: int = _BLOCK, longest: int = LONGEST) -> Iterator[Piece]:
    """Rows as objects with the names of the header. An empty cell is null; numbers become numbers unless `infer` is off.

    Errors: `BadInput` for a header that is no CSV.
    """
    done = int(position or 0)
    read = _Read()
    csv.field_size_limit(max(csv.field_size_limit(), longest))
    rows = csv.reader(_lines(source, read, longest), strict=True)
    try:
        names = _distinct(next((row for row in rows if row), []))
    except csv.Error as error:
        raise BadInput(f"Line {read.lines} is no header of a CSV file: {error}.", hint="Mend the line, then read the file anew.") from error
    gathered = PieceBuffer(usual + 1)
    cell = _cell if infer else _text
    while True:
        line, wrong = read.lines + 1, ""
        read.row.clear()
        read.cut = False
        try:
            row = next(rows)
            if not row or read.bytes <= done:  # an empty line, or one that was read before
                continue
            document = values.store(dict(zip(names, map(cell, row), strict=True)))
        except StopIteration:
            break
        except csv.Error as error:
            document, wrong = read.text(), f"Line {line} is no CSV: {error}."
        except UnicodeEncodeError:
            document, wrong = read.text(), f"Line {line} is not in UTF-8."
        except ValueError:
            document, wrong = _uneven(names, row, cell), f"Line {line} has {len(row)} cells, its header {len(names)}."
        if read.bytes <= done:
            continue
        if read.cut or len(document) > longest:
            document, wrong = read.text()[:KEPT], too_long(line, longest)
        gathered.add(document, wrong)
        if gathered.full:
            yield gathered.piece(read.bytes)
    if gathered:
        yield gathered.piece(read.bytes)


class _Read:
    """The progress in a file, and the lines of the current row."""

    def __init__(self) -> None:
        self.bytes = self.lines = 0
        self.row: list[bytes] = []
        self.cut = False  # a line was too long: only its beginning is kept

    def text(self) -> bytes:
        return b"".join(self.row).rstrip(b"\r\n")


def _lines(source: IO[bytes], read: _Read, longest: int) -> Iterator[str]:
    while line := source.readline(longest + 1):
        read.bytes += len(line)
        read.lines += 1
        if len(line) > longest and not line.endswith(b"\n"):
            line, read.cut = _beginning(line, source, read, longest), True
        read.row.append(line)
        yield line.decode("utf-8-sig" if read.lines == 1 else "utf-8", "surrogateescape")


def _beginning(line: bytes, source: IO[bytes], read: _Read, longest: int) -> bytes:
    """The kept beginning of a line that is too long. Its quotes are as open at the end as the line's, so that later rows are found."""
    quotes = line.count(b'"')
    while rest := source.readline(longest + 1):
        read.bytes += len(rest)
        quotes += rest.count(b'"')
        if rest.endswith(b"\n"):
            break
    return line[:KEPT].replace(b'"', b"") + (b',"\n' if quotes % 2 else b"\n")


def _distinct(names: list[str]) -> list[str]:
    """The names of columns. A repeated one gets a number, because an object has each name once."""
    columns: dict[str, None] = {}
    for name in names:
        new, number = name, 1
        while new in columns or (number > 1 and new in names):
            number += 1
            new = f"{name}_{number}"
        columns[new] = None
    return list(columns)


def _uneven(names: list[str], row: list[str], cell: Callable[[str], Any]) -> bytes:
    """A row with fewer or more cells than the header. Cells without a name are called by their number."""
    headings = [*names, *(f"column {number}" for number in range(len(names) + 1, len(row) + 1))]
    return values.store({name: cell(text.encode("utf-8", "backslashreplace").decode()) for name, text in zip(headings, row, strict=False)})


def typed(cell: str, infer: bool) -> Any:
    """The value of a cell."""
    return _cell(cell) if infer else _text(cell)


def _text(cell: str) -> str | None:
    return cell or None


def _cell(cell: str) -> int | Decimal | str | None:
    if not cell:
        return None
    if cell[0] in "-0123456789" and (match := _NUMBER.fullmatch(cell)) and len(cell) <= _DIGITS:
        if match[1] is match[2] is None:
            return int(cell)
        with suppress(InvalidOperation):  # an exponent beyond those of Python stays text
            return Decimal(cell)
    return cell
