"""What a file's name says of its format and compression, and opening it accordingly."""

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
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_COMPRESSIONS: dict[str, Literal["gzip", "zstd"]] = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}


def format_of(path: Path, said: str) -> WrittenFormat:
    """The format of a file: what was said, else by its name, else JSON lines for names without an ending."""
    if said != "auto":
        return cast("WrittenFormat", said)
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


def collection(name: str) -> str:
    """The namespace of a file's documents: its name without the ending that says its format, so that a table can be called so."""
    path = Path(name)
    for endings in (_COMPRESSIONS, _FORMATS):
        if path.suffix.lower() in endings and path.stem:
            path = path.with_suffix("")
    return str(path)


def compression_of(path: Path, said: str) -> WrittenCompression:
    """The compression of a file: what was said, else by its name."""
    if said != "auto":
        return cast("WrittenCompression", said)
    return _COMPRESSIONS.get(path.suffix.lower(), "none")


def ending(kind: WrittenFormat, compression: WrittenCompression) -> str:
    """How the names of written files end. Parquet is compressed inside."""
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
    """Errors: `Damaged` for a file whose bytes are not what its name or the options say; `Denied` for one that may not be read."""
    from pyarrow import ArrowException

    try:
        yield
    except PermissionError as error:
        raise Denied(f"{path} cannot be read by this process.", hint="Change its permissions.") from error
    except (ArrowException, EOFError, OSError, zlib.error) as error:
        what = "cannot be read" if kind in ("none", "jsonl", "csv") else f"is no whole {kind}"
        hint = "Put a whole one there and begin anew with `run --again`, leave it out with namespace=, or say its format."
        raise Damaged(f"{path} {what}: {str(error).rstrip('.')}.", hint=hint) from error
