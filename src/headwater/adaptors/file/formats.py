"""The format and the compression of a file, by its options or its name; and decompression."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, cast

from headwater.core.errors import BadConfig, Damaged, Denied

WrittenFormat = Literal["jsonl", "csv", "parquet"]
Format = Literal["auto", "jsonl", "csv", "parquet"]
WrittenCompression = Literal["none", "gzip", "zstd"]
Compression = Literal["auto", "none", "gzip", "zstd"]

_FORMATS: dict[str, WrittenFormat] = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    ".csv": "csv",
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
}
_COMPRESSIONS: dict[str, Literal["gzip", "zstd"]] = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}


def format_of(path: Path, option: str) -> WrittenFormat:
    """The format of a file: the option, else by its suffix, else JSON lines for names without one."""
    if option != "auto":
        return cast("WrittenFormat", option)
    ends = [end.lower() for end in path.suffixes]
    if ends and ends[-1] in _COMPRESSIONS:
        ends.pop()
    if not ends:
        return "jsonl"
    if ends[-1] not in _FORMATS:
        raise BadConfig(f"The name {path.name} does not say its format.", hint='Give it: format="jsonl", "csv" or "parquet".')
    return _FORMATS[ends[-1]]


def known(path: Path) -> bool:
    """Whether the suffix names a format."""
    ends = [end.lower() for end in path.suffixes if end.lower() not in _COMPRESSIONS]
    return bool(ends) and ends[-1] in _FORMATS


def collection(name: str) -> str:
    """The namespace of a file's documents: its name without the suffixes of format and compression, so that a table can have it."""
    path = Path(name)
    for endings in (_COMPRESSIONS, _FORMATS):
        if path.suffix.lower() in endings and path.stem:
            path = path.with_suffix("")
    return str(path)


def compression_of(path: Path, option: str) -> WrittenCompression:
    """The compression of a file: the option, else by its suffix."""
    if option != "auto":
        return cast("WrittenCompression", option)
    return _COMPRESSIONS.get(path.suffix.lower(), "none")


def ending(kind: WrittenFormat, compression: WrittenCompression) -> str:
    """The suffixes of written files. Parquet is compressed inside."""
    return ".parquet" if kind == "parquet" else f".{kind}" + {"none": "", "gzip": ".gz", "zstd": ".zst"}[compression]


def decompressed(source: IO[bytes], compression: str) -> IO[bytes]:
    """The content of a stream, decompressed. The caller closes the stream."""
    if compression == "gzip":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=source, mode="rb"))
    if compression == "zstd":
        import pyarrow as pa

        # Arrow's own stream can be read, but not line by line.
        return cast("IO[bytes]", io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(source, "r"), "zstd"), 1 << 16))
    return source


@contextmanager
def open_decompressed(path: Path, compression: str) -> Iterator[IO[bytes]]:
    """A file's content, decompressed."""
    with path.open("rb") as stored, decompressed(stored, compression) as opened:
        yield opened


@contextmanager
def legible(path: Path, kind: str) -> Iterator[None]:
    """Turns read errors into `Damaged`, for a file that is not of its format or compression, and `Denied`."""
    from pyarrow import ArrowException

    try:
        yield
    except PermissionError as error:
        raise Denied(f"{path} cannot be read by this process.", hint="Change its permissions.") from error
    except (ArrowException, EOFError, OSError, zlib.error) as error:
        problem = "cannot be read" if kind in ("none", "jsonl", "csv") else f"is no whole {kind}"
        hint = "Put a whole one there and begin anew with `run --again`, leave it out with namespace=, or say its format."
        raise Damaged(f"{path} {problem}: {str(error).rstrip('.')}.", hint=hint) from error
