"""Documents of CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import IO, Any

from headwater.pipeline import values
from headwater.pipeline.adaptor import Piece

_BLOCK = 2 << 20
_INTEGER = re.compile(r"-?(?:0|[1-9]\d*)")
_DECIMAL = re.compile(r"-?(?:0|[1-9]\d*)\.\d+")


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
