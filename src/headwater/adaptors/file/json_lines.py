"""Reading documents from JSON lines: of a file, in slices, and of a stream."""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import msgspec

from headwater.pipeline.piece_size import piece_size
from headwater.pipeline.source_adaptor import LONGEST, Piece
from headwater.pipeline.texts import Texts

_BLOCK = 2 << 20
KEPT = 64 << 10  # bytes that are kept of a line that is too long


class _Object(msgspec.Struct, gc=False):
    """Decoding into this proves that a line is a JSON object, at a fraction of the cost of building it."""


_decoder = msgspec.json.Decoder(_Object)


def line_pieces(path: Path, begin: int, end: int, position: Any, *, usual: int = _BLOCK, longest: int = LONGEST) -> Iterator[Piece]:
    """Lines that begin in [begin, end): blocks cut at line ends, so that slices fit together whatever lines they cut."""
    usual = piece_size(usual)
    with path.open("rb", buffering=0) as source:
        size = os.fstat(source.fileno()).st_size
        at = position if position is not None else _line_at(source, begin, size)
        block = usual
        while at < end:
            source.seek(at)
            data = source.read(block)
            if not data:
                raise EOFError("it has become shorter")
            if at + len(data) < size:
                cut = (data.rfind(b"\n") if block == usual else data.find(b"\n")) + 1  # after a long line, the block is as usual again
                if not cut and len(data) > longest:
                    following = _line_at(source, at + len(data), size)
                    yield Piece(position=following, values=[data[:KEPT]], bad={0: too_long(_line_number(source, at, 0), longest)})
                    at, block = following, usual
                    continue
                if not cut:
                    block *= 2  # a line longer than a block
                    continue
                data = data[:cut]
            if at + len(data) > end:  # keep the lines that begin before the end
                cut = data.find(b"\n", max(0, end - at - 1)) + 1
                data = data[:cut] if cut else data
            documents, bad = line_documents(data, partial(_line_number, source, at, 0), longest)
            at, block = at + len(data), usual
            yield Piece(position=at, values=documents, bad=bad)


def too_long(line: int, longest: int) -> str:
    return f"Line {line} has more than {longest} bytes, which is more than a record of the log holds: only its beginning was kept."


def line_documents(data: bytes, number: Callable[[int], int], longest: int = LONGEST) -> tuple[Sequence[bytes], dict[int, str]]:
    """The documents of whole lines. A line that is no JSON object is kept as it is, with an error that has its number."""
    checked = _utf8(data)
    if checked and len(data) <= longest:
        with suppress(msgspec.DecodeError, RecursionError):
            if (texts := _plain(data if data.endswith(b"\n") else data + b"\n")) is not None:  # usual: every line is an object
                return texts, {}
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if checked and len(data) <= longest:
        with suppress(msgspec.DecodeError, RecursionError):
            deque(map(_decoder.decode, lines), 0)
            return lines, {}
    documents: list[bytes] = []
    bad: dict[int, str] = {}
    add = documents.append
    for index, line in enumerate(lines):
        if index == 0 and line.startswith(BOM_UTF8) and number(0) == 1:
            line = line[len(BOM_UTF8) :]
        if len(line) > longest:
            bad[len(documents)] = too_long(number(index), longest)
            add(line[:KEPT])
            continue
        try:
            if not checked:
                line.decode()
            _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if not line.strip():
                continue
            bad[len(documents)] = f"Line {number(index)} is no JSON object: {error}."
        add(line)
    return documents, bad


def _plain(data: bytes) -> Texts | None:
    """Lines of which each is one object without spaces around it; None where one is not. Raises the decoder's errors.

    The decoder ignores what separates documents. But inside of an object, no `}` is followed by a line end and a `{`: where every line
    begins with `{` and ends with `}`, each has at least one object, and with as many objects as lines, exactly one.
    """
    texts = Texts.of_lines(data)
    if not texts.stand_between(b"{", b"}"):
        return None
    return texts if len(_decoder.decode_lines(data)) == len(texts) else None


def _utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _line_at(source: IO[bytes], begin: int, size: int) -> int:
    """The byte at which the first line at or after `begin` begins."""
    if begin == 0:
        return 0
    at = source.seek(begin - 1)
    while at < size:
        data = source.read(1 << 16)
        newline = data.find(b"\n")
        if newline >= 0:
            return at + newline + 1
        at += len(data)
    return size


def _line_number(source: IO[bytes], at: int, lines: int, index: int = 0) -> int:
    """The number of the line that comes `lines` and `index` lines after the byte `at`. The source is left where it was.

    What lies before `at` is counted here, only when something is wrong: slices do not know line numbers.
    """
    count = 1 + lines + index
    if at:
        position, left = source.tell(), at
        source.seek(0)
        while left and (data := source.read(min(_BLOCK, left))):
            count += data.count(b"\n")
            left -= len(data)
        source.seek(position)
    return count


def stream_pieces(source: IO[bytes], position: Any, *, seek: bool = False, usual: int = _BLOCK, longest: int = LONGEST) -> Iterator[Piece]:
    """Lines of a stream. `seek`: reading begins at the position. Otherwise what lies before it is read again and left out."""
    usual = piece_size(usual)
    done = int(position or 0)
    start = source.seek(done) if seek else 0
    lines, pending, offset = 0, b"", start
    while True:
        data = source.read(usual)
        if not data and not pending:
            return
        text = pending + data
        cut = text.rfind(b"\n") + 1 if data else len(text)
        number = partial(_line_number, source, start, lines)
        if not cut and len(text) > longest:
            length, pending = _passed(source, usual)
            offset += len(text) + length
            if offset > done:
                yield Piece(position=offset, values=[text[:KEPT]], bad={0: too_long(number(), longest)})
            lines += 1
            continue
        pending, text = text[cut:], text[:cut]
        if not text:
            continue
        offset += len(text)
        if offset > done:
            documents, bad = line_documents(text, number, longest)
            yield Piece(position=offset, values=documents, bad=bad)
        lines += text.count(b"\n")


def _passed(source: IO[bytes], usual: int) -> tuple[int, bytes]:
    """Read up to a line's end: the count of its bytes, and what was read of the lines behind it."""
    length = 0
    while data := source.read(usual):
        end = data.find(b"\n") + 1
        if end:
            return length + end, data[end:]
        length += len(data)
    return length, b""
