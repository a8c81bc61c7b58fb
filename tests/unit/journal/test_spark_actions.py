"""Records of journals as rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwater.journal.action import Append, Delete, Mark, Purge
from headwater.journal.event import NumberedEvent, Payload, PayloadKind
from headwater.journal.event_bodies import encode_events
from headwater.journal.spark_actions import JournalActions
from headwater.journal.spark_part import EventChoice
from headwater.journal.wire import write_record
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record

TOPIC = "journal-bank"


def rows(log: EmbeddedLog, id: str | None = None) -> list[dict[str, Any]]:
    table = JournalActions("bank", EventChoice(id))
    found: list[dict[str, Any]] = []
    for batch in log.scan(TOPIC, 0, 0):
        columns = table.rows(0, batch, table.schema.names)
        cells = zip(*(column.to_pylist() for column in columns.values()), strict=True)
        found += [dict(zip(columns, row, strict=True)) for row in cells]
    return found


def test_actions_are_the_records(tmp_path: Path) -> None:
    kind, value = encode_events([NumberedEvent(number, Payload(PayloadKind.JSON, b"1")) for number in (1, 2)])
    with EmbeddedLog(tmp_path) as log:
        log.create_topic(TOPIC, part="journal")
        records = [
            write_record("alice", Append(1, 2, kind), value=value),
            write_record("alice", Mark("m")),
            write_record("bob", Delete(1)),
            write_record("bob", Purge()),
            Record(b"foreign", b"value"),
            Record(b"eve", b"", (("journal.action", b"{"),)),
        ]
        log.append(TOPIC, 0, records, part="journal")
        found = rows(log)
        assert [(row["action"], row["first"], row["last"], row["to"], row["mark"]) for row in found] == [
            ("append", 1, 2, None, None),
            ("mark", None, None, None, "m"),
            ("delete", None, None, 1, None),
            ("purge", None, None, None, None),
            ("unreadable", None, None, None, None),
        ]
        assert [row["offset"] for row in found] == [0, 1, 2, 3, 5]
        assert [bool(row["problem"]) for row in found] == [False] * 4 + [True]
        assert [row["action"] for row in rows(log, "bob")] == ["delete", "purge"]
