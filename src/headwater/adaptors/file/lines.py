"""Documents of JSON lines: of a file that can be entered anywhere, and of a stream."""

from __future__ import annotations

import operator
import os
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import msgspec

from headwater.pipeline.adaptor import LONGEST, Piece
from headwater.pipeline.texts import Texts

_BLOCK = 2 << 20
KEPT = 64 << 10  # bytes of a document that is longer


class _Object(msgspec.Struct, gc=False):
    """Decoding into this proves that a line is a JSON object, at a fraction of the cost of building it."""


_decoder = msgspec.json.Decoder(_Object)


def line_pieces(path: Path, begin: int, end: int, position: Any, *, usual: int = _BLOCK, longest: int = LONGEST) -> Iterator[Piece]:
    """Lines that begin in [begin, end): blocks cut at line ends, so that slices fit together whatever lines they cut."""
    fd = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        at = position if position is not None else _line_at(fd, begin, size)
        block = usual
        while at < end:
            data = os.pread(fd, block, at)
            if not data:
                raise EOFError("it has become shorter")
            if at + len(data) < size:
                cut = (data.rfind(b"\n") if block == usual else data.find(b"\n")) + 1  # behind a long line, the block is as usual again
                if not cut and len(data) > longest:
                    following = _line_at(fd, at + len(data), size)
                    yield Piece(position=following, values=[data[:KEPT]], bad={0: too_long(_line_number(fd, at), longest)})
                    at, block = following, usual
                    continue
                if not cut:
                    block *= 2  # a line longer than a block
                    continue
                data = data[:cut]
            if at + len(data) > end:  # keep the lines that begin before the end
                cut = data.find(b"\n", max(0, end - at - 1)) + 1
                data = data[:cut] if cut else data
            following = at + len(data)
            documents, bad = line_documents(data, partial(_number_in_block, fd, at), longest)
            yield Piece(position=following, values=documents, bad=bad)
            at, block = following, usual
    finally:
        os.close(fd)


def too_long(line: int, longest: int) -> str:
    return f"Line {line} has more than {longest} bytes, which is more than a record of the log holds: only its beginning was kept."


def line_documents(data: bytes, number: Callable[[int], int], longest: int = LONGEST) -> tuple[Sequence[bytes], dict[int, str]]:
    """The documents of whole lines; what is no JSON object is kept as it is, with what is wrong with it and its line's number."""
    checked = _utf8(data)
    if checked and len(data) <= longest:
        with suppress(msgspec.DecodeError, RecursionError):
            if (texts := _plain(data if data.endswith(b"\n") else data + b"\n")) is not None:  # the rule: nothing is wrong
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
    """Lines of which each is a document without a space around it; None where one is not, or an error of the decoder.

    The decoder takes documents whatever stands between them. But inside of one, no `}` is followed by a line's end and a `{`: where all
    lines begin and end so, each of them holds at least one document, and where there are as many documents, just one.
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


def stream_pieces(source: IO[bytes], position: Any, *, usual: int = _BLOCK, longest: int = LONGEST) -> Iterator[Piece]:
    """Lines of a stream that cannot be entered in its middle: what was read before is read again and left out."""
    done = int(position or 0)
    number, pending, here = 1, b"", 0
    while True:
        data = source.read(usual)
        if not data and not pending:
            return
        whole = pending + data
        cut = whole.rfind(b"\n") + 1 if data else len(whole)
        if not cut and len(whole) > longest:
            length, pending = passed(source, usual)
            here, first, number = here + len(whole) + length, number, number + 1
            if here > done:
                yield Piece(position=here, values=[whole[:KEPT]], bad={0: too_long(first, longest)})
            continue
        pending, whole = whole[cut:], whole[:cut]
        if not whole:
            continue
        here += len(whole)
        first, number = number, number + whole.count(b"\n")
        if here > done:
            documents, bad = line_documents(whole, partial(operator.add, first), longest)
            yield Piece(position=here, values=documents, bad=bad)


def passed(source: IO[bytes], usual: int) -> tuple[int, bytes]:
    """Read past a line's end: how many bytes that was, and what was read of the lines behind it."""
    length = 0
    while data := source.read(usual):
        end = data.find(b"\n") + 1
        if end:
            return length + end, data[end:]
        length += len(data)
    return length, b""
