"""The operations that carry journals to another topic or installation: export as lines, and import of these."""

from __future__ import annotations

from headwater.core.errors import (
    BadConfig,
    Conflict,
    Damaged,
    Differs,
    DiskFull,
    Erased,
    Fenced,
    LogGap,
    NotOwner,
    OffsetGone,
    OutcomeUnknown,
    OwnedTopic,
    TooLarge,
    Unavailable,
    Undecryptable,
    UnknownJournal,
    UnreadableRecord,
    Unsupported,
)
from headwater.journal import transfer_requests as transfer
from headwater.journal.bodies import LINES
from headwater.journal.exported import ExportLine
from headwater.wire.operation import Operation, Role

_KNOWN = (UnknownJournal, Damaged, Unavailable)
_CIPHER = (Undecryptable, BadConfig, Unsupported)
_READS = (*_KNOWN, *_CIPHER, Erased, LogGap, UnreadableRecord, Differs, Conflict, OffsetGone)


def _sent(request: transfer.ImportLines) -> tuple[str, bytes]:
    return LINES, b"".join(line.rstrip(b"\r\n") + b"\n" for line in request.lines)


EXPORT_LINES = Operation(
    part="journal",
    name="export_lines",
    method="GET",
    path="/replication/{topic}/export",
    request=transfer.ExportJournals,
    answer=ExportLine,
    kind="stream",
    role=Role.READER,
    says="Everything that the journals of a topic are, one Append a line. The last line has `end`: without it the export is not whole.",
    media="application/x-ndjson",
    errors=_READS,
)
EXPORT = Operation(
    part="journal",
    name="export",
    method="GET",
    path="/replication/{topic}/export",
    request=transfer.ExportJournals,
    answer=ExportLine,
    kind="stream",
    role=Role.READER,
    says="The lines of an export, as events. A failure in the midst of it is an event, too.",
    media="text/event-stream",
    errors=_READS,
)
IMPORT_LINES = Operation(
    part="journal",
    name="import_lines",
    method="POST",
    path="/replication/{topic}/import",
    request=transfer.ImportLines,
    answer=transfer.ImportedLines,
    role=Role.OPERATOR,
    changes=True,
    patience=None,
    says="Import lines of an export: all of them, or a part, one after the other. Lines that are there already change nothing.",
    content={LINES: {"$struct": ExportLine}},
    sends=_sent,
    errors=(*_READS, NotOwner, Fenced, OwnedTopic, DiskFull, OutcomeUnknown, TooLarge),
    commands={"import {topic}": ""},
)
TRANSFER = (EXPORT_LINES, EXPORT, IMPORT_LINES)
