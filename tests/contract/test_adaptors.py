"""The adaptors that need no server, held to what adaptors promise."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.adaptors.queue.adaptor import QueueAdaptor
from headwater.adaptors.queue.connection import DOORS, QueueConnection
from headwater.client.blocking import open_blocking
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.pipeline import values
from headwater.pipeline.adaptors import documents, file, headwater, journal, sqlite
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.sink_adaptor import CanWrite
from headwater.pipeline.source_adaptor import CanCopy
from headwater.queue.notes import NOTES
from headwater.testing import CopyContract, SinkContract

ROWS = [{"_id": n, "name": f"thing {n}", "big": 2**53 + n, "deep": {"list": [n, None, "ä"]}} for n in range(50)]


class TestLinesSource(CopyContract):
    @pytest.fixture
    def source(self, tmp_path: Path) -> CanCopy:
        (tmp_path / "in.jsonl").write_text("\n".join(json.dumps(row) for row in ROWS))  # without a newline at the end
        return file(str(tmp_path / "in.jsonl"))


class TestFolderSource(CopyContract):
    @pytest.fixture
    def source(self, tmp_path: Path) -> CanCopy:
        (tmp_path / "in" / "deeper").mkdir(parents=True)
        (tmp_path / "in" / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS[:20]))
        with gzip.open(tmp_path / "in" / "deeper" / "b.jsonl.gz", "wt") as out:
            out.write("".join(json.dumps(row) + "\n" for row in ROWS[20:30]))
        pq.write_table(
            pa.Table.from_pylist([{"_id": n, "name": "x"} for n in range(30, 50)]), tmp_path / "in" / "c.parquet", row_group_size=7
        )
        (tmp_path / "in" / ".hidden.jsonl").write_text("no document")
        return file(f"{tmp_path}/in/")


class TestTableSource(CopyContract):
    @pytest.fixture
    def source(self, tmp_path: Path) -> CanCopy:
        with closing(sqlite3.connect(tmp_path / "in.db")) as db, db:
            db.execute("create table plain (name, data blob)")
            db.execute("create table keyed (a integer, b text, primary key (a, b)) without rowid")
            db.executemany("insert into plain values (?, ?)", [(f"n{n}", bytes([n])) for n in range(30)])
            db.executemany("insert into keyed values (?, ?)", [(n // 3, str(n)) for n in range(20)])
        return sqlite(str(tmp_path / "in.db"))


class TestTopicSource(CopyContract):
    @pytest.fixture(params=["json", "bytes"])
    def source(self, tmp_path: Path, request: pytest.FixtureRequest) -> CanCopy:
        with EmbeddedLog(tmp_path / "data") as log:
            log.create_topic("things", partitions=2)
            for number in range(2):
                log.append("things", number, [Record(None, json.dumps(row).encode()) for row in ROWS[number::2]])
        return headwater(str(tmp_path / "data"), topic="things", tail=False, format=request.param)


class TestMessagesSource(CopyContract):
    @pytest.fixture
    def source(self, tmp_path: Path) -> CanCopy:
        with EmbeddedLog(tmp_path / "data") as log:
            log.create_topic("pipeline-things", part=PART)
            records = [Record(b"abc"[n % 3 :][:1], json.dumps(row).encode()) for n, row in enumerate(ROWS)]
            log.append("pipeline-things", 0, records, part=PART)
        return headwater(str(tmp_path / "data"), topic="pipeline-things", copy=True, format="message")


class TestJournalSource(CopyContract):
    @pytest.fixture(params=["topic", "id"])
    def source(self, tmp_path: Path, request: pytest.FixtureRequest) -> CanCopy:
        with open_blocking(tmp_path / "data", create=True) as hw:
            bank = hw.journals("bank", create=True).open()
            bank.append_many([(f"a{n % 7}", ROWS[n * 5 : n * 5 + 5]) for n in range(10)])
            bank["a1"].mark()
            bank["a1"].delete(to=1)
        return journal("bank", address=str(tmp_path / "data"), namespace=request.param)


class TestDocumentsSource(CopyContract):
    @pytest.fixture(params=["things/", "things/a~"])
    def source(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CanCopy]:
        with open_blocking(tmp_path / "data", create=True) as hw:
            paths = ["a~"] if request.param.endswith("~") else ["a~", "b~", "c~", "", ""]
            for number, row in enumerate(ROWS):
                hw.documents[f"things/{paths[number % len(paths)] or 'd'}/{number:03}"].put(row if paths[number % len(paths)] else {"n": 1})
        yield documents(request.param, address=str(tmp_path / "data"))
        DOORS.close_unused()


class TestFolderOfLines(SinkContract):
    deletes = upserts = False

    @pytest.fixture
    def sink(self, tmp_path: Path) -> CanWrite:
        return file(f"{tmp_path}/out/")


class TestFolderOfTables(SinkContract):
    deletes = upserts = False

    @pytest.fixture
    def sink(self, tmp_path: Path) -> CanWrite:
        return file(f"{tmp_path}/out/", format="parquet")


class TestFolderOfCompressedLines(SinkContract):
    deletes = upserts = False

    @pytest.fixture
    def sink(self, tmp_path: Path) -> CanWrite:
        return file(f"{tmp_path}/out/", compression="zstd")


class TestSingleFile(SinkContract):
    deletes = upserts = False

    @pytest.fixture
    def sink(self, tmp_path: Path) -> CanWrite:
        return file(str(tmp_path / "out.jsonl"))


class TestCsvFile(SinkContract):
    deletes = upserts = False

    @pytest.fixture
    def sink(self, tmp_path: Path) -> CanWrite:
        return file(str(tmp_path / "out.csv"))


class TestTables(SinkContract):
    @pytest.fixture
    def sink(self, tmp_path: Path) -> CanWrite:
        return sqlite(str(tmp_path / "out.db"))


class TestTopic(SinkContract):
    @pytest.fixture
    def sink(self, tmp_path: Path) -> CanWrite:
        return headwater(str(tmp_path / "data"), topic="things", partitions=3)


class ReadableQueue(QueueAdaptor, frozen=True, kw_only=True):
    """A queue whose rows nobody claims, so that they can be compared with what was sent."""

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        with QueueConnection(self) as connection:
            yield from (values.decode(row.data) for row in connection.rows() if not row.key.startswith(NOTES))

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        return values.decode(values.encode(data))


class TestQueue(SinkContract):
    @pytest.fixture
    def sink(self, tmp_path: Path) -> Iterator[CanWrite]:
        yield ReadableQueue(queue="things", address=str(tmp_path / "data"))
        DOORS.close_unused()


class TestCollection(SinkContract):
    @pytest.fixture
    def sink(self, tmp_path: Path) -> Iterator[CanWrite]:
        yield documents("things~", address=str(tmp_path / "data"))
        DOORS.close_unused()


class TestDocumentsBelowAPrefix(SinkContract):
    @pytest.fixture
    def sink(self, tmp_path: Path) -> Iterator[CanWrite]:
        yield documents("things/", address=str(tmp_path / "data"))
        DOORS.close_unused()
