"""Text of the binary log, in the character sets of its columns.

The log's reader takes every name of a set for one of Python's, which is another set (utf16 is big-endian here), or fails at bytes that the
server lets in (0x81 in latin1), for ever. So texts of all but the plain sets are taken as bytes and read here; and by the server itself
where Python cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

_PLAIN = frozenset({"ascii", "binary", "utf8", "utf8mb3", "utf8mb4"})
_CODECS = {
    "latin1": "cp1252",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "ujis": "euc_jp",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    **{name: name for name in ("big5", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "cp932", "euckr", "gbk")},
}
_SERVERS = {"cp1252": "latin1", "koi8_r": "koi8r", "koi8_u": "koi8u"}  # sets that the log's reader calls otherwise than the server does
_AS_BYTES = "iso8859_1"  # not the server's name of any set, and for Python the one that keeps every byte
_TEXTS = frozenset({15, 249, 250, 251, 252, 253, 254})  # types of columns that hold text, by their numbers in the log


def as_bytes(columns: Iterable[Any]) -> None:
    """Let the log's reader keep the bytes of texts that it could read wrongly. Called before it reads a row; again does nothing."""
    for column in columns:
        name = column.character_set_name
        if column.type in _TEXTS and name is not None and name not in _PLAIN and name != _AS_BYTES:
            column.character_set_name, column.kept_as_bytes = _AS_BYTES, _SERVERS.get(name, name)


def charset_of(column: Any) -> str | None:
    """The set of a column whose texts are kept as bytes."""
    found: str | None = getattr(column, "kept_as_bytes", None)
    return found


def reader(charset: str, convert: Callable[[str, bytes], str]) -> Callable[[Any], Any]:
    """From a text kept as bytes to the text. `convert`: what the server makes of bytes of a set."""
    codec = _CODECS.get(charset)

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        data = value.encode(_AS_BYTES)
        if codec is not None:
            try:
                return data.decode(codec)
            except UnicodeDecodeError:
                pass
        return convert(charset, data)

    return read
