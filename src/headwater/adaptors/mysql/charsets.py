"""Text of the binary log, in the character sets of its columns.

mysql-replication takes the server's name of a character set for Python's, which may be another set (utf16 is big-endian here), and fails at
bytes that the server accepts (0x81 in latin1). So text is kept as bytes for all but the plain sets, and decoded here; the server itself
decodes what Python cannot.
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
_SERVERS = {"cp1252": "latin1", "koi8_r": "koi8r", "koi8_u": "koi8u"}  # by mysql-replication's name of a set, the server's
_AS_BYTES = "iso8859_1"  # no set of the server has this name; Python's codec of it keeps every byte
_TEXTS = frozenset({15, 249, 250, 251, 252, 253, 254})  # the numbers of column types that hold text


def as_bytes(columns: Iterable[Any]) -> None:
    """Make mysql-replication keep the bytes of text that it could decode wrongly. Call it before it reads a row; twice does no harm."""
    for column in columns:
        name = column.character_set_name
        if column.type in _TEXTS and name is not None and name not in _PLAIN and name != _AS_BYTES:
            column.character_set_name, column.kept_as_bytes = _AS_BYTES, _SERVERS.get(name, name)


def charset_of(column: Any) -> str | None:
    """The character set of a column whose text is kept as bytes; None for other columns."""
    charset: str | None = getattr(column, "kept_as_bytes", None)
    return charset


def mangled(names: Iterable[str], charset: str | None) -> list[str] | None:
    """The names of an enum's members as mysql-replication returns them: it takes all bytes for UTF-8, and those that are none for nothing.

    None where the bytes are not known here.
    """
    codec = "utf-8" if charset in _PLAIN or charset is None else _CODECS.get(_SERVERS.get(charset, charset))
    return None if codec is None else [_as_utf8(name, codec) for name in names]


def readable(names: Iterable[str], charset: str | None) -> bool:
    """Whether mysql-replication has read these names in the set as they are."""
    return charset in _PLAIN or all(name.isascii() and name.isprintable() and name for name in names)


def _as_utf8(name: str, codec: str) -> str:
    try:
        return name.encode(codec).decode()
    except UnicodeError:
        return ""


def reader(charset: str, convert: Callable[[str, bytes], str]) -> Callable[[Any], Any]:
    """The function that decodes text which is kept as bytes. `convert`: asks the server to decode bytes of a set."""
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
