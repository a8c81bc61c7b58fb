"""What users set of journals, in `[journal]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from headwater.core.sections import Section
from headwater.core.settings import Note
from headwater.core.units import Duration

Duplicates = Literal["first", "last", "fail"]
"""What a read does with events of one journal and one number: gives the one that came first or last, or fails."""


class JournalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How journals are kept, copied and read."""

    replicate: Annotated[bool, Note("Whether a server copies journals into the store.", "true")] = True
    round: Annotated[Duration, Note("The least pause between two rounds of copying on Spark.", '"250ms"', 0)] = Duration(250)
    partitions: Annotated[int, Note("Partitions of a new topic; 0: 2 on this machine, 8 on Kafka.", "8", 0, 4096)] = 0
    segment_size: Annotated[int, Note("Events of a new journal that the store keeps together.", "10000", 2, (1 << 31) - 1)] = 10_000
    small: Annotated[
        int,
        Note(
            "Fewer records than this are copied without Spark; -1: 20000 on this machine, and 0 on Kafka or a Spark cluster.", "20000", -1
        ),
    ] = -1
    keep: Annotated[
        Duration, Note("How long the log keeps records that every store has copied, of journals a day at least; 0ms: for ever.", '"7d"', 0)
    ] = Duration(0)
    prefixes: Annotated[tuple[str, ...], Note("Topics whose names begin so are topics of journals.", '["journal"]')] = ("journal",)
    duplicates: Annotated[
        Duplicates, Note("Which event a read gives where several have one number: the first, the last, or none (fail).", '"first"')
    ] = "first"
    key_file: Annotated[Path | None, Note("A file of the master keys of encrypted topics, the newest one first.", '"master.keys"')] = None
    key_variable: Annotated[str, Note("The environment variable that holds the master keys, instead of a file.", '"MASTER_KEYS"')] = ""


JOURNAL_SECTION = Section("journal", JournalSettings)
