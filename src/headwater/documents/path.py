"""Paths of documents, collections and items, and the partition that holds each."""

from __future__ import annotations

import re
from typing import NamedTuple
from zlib import crc32

from headwater.core.document_errors import BadPath

LOGICAL_PARTITIONS = 1024
MOST_BYTES = 2048
_UNFIT = re.compile(r"[^A-Za-z0-9\-._~:/\[\]@!$&'()*+,;=]")
_HINT = "A path has letters, digits and -._~:[]@!$&'()*+,;= in segments divided by single slashes."


class ResourcePath(NamedTuple):
    """The path of a document, a collection (its last segment ends with ~) or an item. `uri`: of the document or collection."""

    uri: str
    item: str = ""
    """The id of an item; empty for a document and a whole collection."""

    @property
    def text(self) -> str:
        """The path as it is written."""
        return f"{self.uri}/{self.item}" if self.item else self.uri

    @property
    def is_collection(self) -> bool:
        """Whether it is a whole collection."""
        return not self.item and self.uri.endswith("~")


def parse_path(text: str) -> ResourcePath:
    """The parts of a path. Errors: `BadPath`, which names the character or segment that does not fit."""
    unfit = _UNFIT.search(text)
    if unfit is not None:
        raise BadPath(f"The path {text!r:.80} has {unfit[0]!r} at character {unfit.start() + 1}, which no path may have.", hint=_HINT)
    if len(text) > MOST_BYTES:
        raise BadPath(f"The path has {len(text)} characters.", hint=f"A path has at most {MOST_BYTES}.")
    segments = text.split("/")
    if "" in segments:
        raise BadPath(f"The path {text!r:.80} has an empty segment.", hint=_HINT)
    if any(segment in (".", "..") for segment in segments):
        raise BadPath(f"The path {text!r:.80} has a segment {'..' if '..' in segments else '.'!r}.", hint="Clients resolve such segments.")
    if len(segments) > 2 and segments[-2].endswith("~") and segments[-3].endswith("~"):
        raise BadPath(f"{text!r:.80} names a collection below a collection.", hint="Keep items of items in a collection of its own.")
    if len(segments) > 1 and segments[-2].endswith("~"):
        return ResourcePath("/".join(segments[:-1]), segments[-1])
    return ResourcePath(text)


def logical_partition(uri: str) -> int:
    """The logical partition of a document or collection, from 0 to 1023."""
    return crc32(uri.encode()) % LOGICAL_PARTITIONS


def partition_of(uri: str, partitions: int) -> int:
    """The partition of the log that holds a document or collection, among so many."""
    return logical_partition(uri) % partitions
