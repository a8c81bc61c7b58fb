"""What a file's name says of its format and compression, and opening it accordingly."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import IO, Literal, cast

from headwater.core.errors import BadConfig

_FORMATS: dict[str, Literal["jsonl", "csv", "parquet"]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_COMPRESSIONS: dict[str, Literal["gzip", "zstd"]] = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}


def format_of(path: Path, said: str) -> Literal["jsonl", "csv", "parquet"]:
    """The format of a file: what was said, else by its name, else JSON lines for names without an ending."""
    if said != "auto":
        return cast("Literal['jsonl', 'csv', 'parquet']", said)
    ends = [end.lower() for end in path.suffixes]
    if ends and ends[-1] in _COMPRESSIONS:
        ends.pop()
    if not ends:
        return "jsonl"
    if ends[-1] not in _FORMATS:
        raise BadConfig(f"What {path.name} holds cannot be told by its name.", hint='Say it: format="jsonl", "csv" or "parquet".')
    return _FORMATS[ends[-1]]


def known(path: Path) -> bool:
    """Whether the name says a format."""
    ends = [end.lower() for end in path.suffixes if end.lower() not in _COMPRESSIONS]
    return bool(ends) and ends[-1] in _FORMATS


def compression_of(path: Path, said: str) -> Literal["none", "gzip", "zstd"]:
    """The compression of a file: what was said, else by its name."""
    if said != "auto":
        return cast("Literal['none', 'gzip', 'zstd']", said)
    return _COMPRESSIONS.get(path.suffix.lower(), "none")


def open_plain(path: Path, compression: str) -> IO[bytes]:
    """The file's bytes, decompressed, to read."""
    if compression == "gzip":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if compression == "zstd":
        import pyarrow as pa

        # Arrow's own stream can be read, but not line by line.
        return cast("IO[bytes]", io.BufferedReader(pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"), 1 << 16))
    return path.open("rb")


def plain(source: IO[bytes], compression: str) -> IO[bytes]:
    """What a stream holds, decompressed, to read; the stream stays the caller's to close."""
    if compression == "gzip":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=source, mode="rb"))
    if compression == "zstd":
        import pyarrow as pa

        return cast("IO[bytes]", io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(source, "r"), "zstd"), 1 << 16))
    return source
