"""What sinks hold of single values: each is written to a place of its own, read back there, and compared as `verify` compares."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from headwater.adaptors.file.adaptor import File
from headwater.adaptors.sqlite.adaptor import sqlite
from headwater.core.errors import Rejected
from headwater.pipeline import values
from headwater.pipeline.message import Message
from headwater.pipeline.sink_adaptor import Batch, CanWrite, Part

FIELD, REFUSED, NOTHING, DIFFERS = "value", "refused", "–", "; verify: differs"
_raw = msgspec.json.Decoder(dict[str, msgspec.Raw])


class TypeSink(ABC):
    """A kind of sink. Values are known by numbers."""

    name: str

    def __init__(self) -> None:
        self._log = f"types#{uuid.uuid4().hex}"  # of every sink its own: a database remembers what others have brought

    @abstractmethod
    def adaptor(self, number: int) -> CanWrite:
        """The sink that a value is written to."""

    @abstractmethod
    def held(self, number: int) -> str:
        """What is there then, as the system says it: where columns have types, behind the type."""

    def namespace(self, number: int) -> str:
        return f"v{number}"

    def cell(self, number: int, value: bytes) -> str:
        """Writes a value, as the log has it; says what the sink holds then, and whether `verify` would say that both differ."""
        text = b'{"_id":1,"%s":%s}' % (FIELD.encode(), value)
        adaptor, namespace = self.adaptor(number), self.namespace(number)
        part = Part(pipeline=self._log, sink=self.name, start=number, end=number + 1, epoch=1, attempt="1")
        adaptor.begin(part.pipeline, part.sink, part.epoch)
        message = Message(namespace, values.decode(text), offset=number)
        with closing(adaptor.writer(part)) as writer:
            try:
                if not (writer.takes_text and writer.write_text(Batch(start=number, end=number + 1, values=[text]))):
                    writer.write(Batch(start=number, end=number + 1, messages=[message]))
                receipt = writer.finish()
            except Rejected:
                return REFUSED
        adaptor.publish(part, receipt)
        _, sent = adaptor.identified(Message(namespace, values.decode(text), offset=number), part.pipeline)
        wanted = values.canonical(values.extended(adaptor.stored(sent)))
        equal = [wanted] == [values.canonical(values.extended(row)) for row in adaptor.rows(namespace)]
        return self.held(number) + ("" if equal else DIFFERS)


class FolderSink(TypeSink):
    """Files of a format."""

    def __init__(self, name: str, format: str, folder: str) -> None:
        super().__init__()
        self.name, self._format, self._folder = name, format, folder

    def adaptor(self, number: int) -> CanWrite:
        return File(uri=f"{self._path(number)}/", format=self._format)  # type: ignore[arg-type]

    def held(self, number: int) -> str:
        [part] = self._path(number).glob("part-*")
        if self._format == "jsonl":
            return bytes(_raw.decode(part.read_bytes())[FIELD]).decode()
        import pyarrow.parquet as pq

        table = pq.read_table(part)
        if FIELD not in table.column_names:
            return NOTHING
        value = table.column(FIELD)[0].as_py()
        return f"{table.schema.field(FIELD).type} {value if isinstance(value, Decimal | datetime) else repr(value)}"

    def _path(self, number: int) -> Path:
        return Path(self._folder, f"{self._format}-{number}")


class SqliteSink(TypeSink):
    """Tables that the sink makes in one database."""

    name = "SQLite"

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._path = f"{folder}/out.db"

    def adaptor(self, number: int) -> CanWrite:
        return sqlite(self._path)

    def held(self, number: int) -> str:
        import apsw

        db = apsw.Connection(self._path)
        try:
            kinds = {str(row[1]): str(row[2]) for row in db.execute(f"PRAGMA table_info({self.namespace(number)})")}
            if FIELD not in kinds:
                return NOTHING
            [(value,)] = db.execute(f"SELECT quote({FIELD}) FROM {self.namespace(number)}")
        finally:
            db.close()
        return f"{kinds[FIELD]} {value}".strip()


class PostgresSink(TypeSink):
    """Tables that the sink makes in a schema of its own."""

    name = "PostgreSQL"

    def __init__(self, uri: str, schema: str) -> None:
        super().__init__()
        self._uri, self._schema = uri, schema

    def namespace(self, number: int) -> str:
        return f"{self._schema}.v{number}"

    def adaptor(self, number: int) -> CanWrite:
        from headwater.adaptors.postgres.adaptor import postgres

        return postgres(self._uri, create=True)

    def held(self, number: int) -> str:
        import psycopg

        with psycopg.connect(self._uri) as link:
            try:
                row = link.execute(f"SELECT pg_typeof({FIELD})::text, {FIELD}::text FROM {self.namespace(number)}".encode()).fetchone()
            except psycopg.errors.UndefinedColumn:
                return NOTHING
        return NOTHING if row is None else f"{row[0]} {row[1]}"


LOCAL, SERVED = ("JSON", "SQLite", "Parquet"), ("PostgreSQL",)


@contextmanager
def sinks(uri: str | None = None) -> Iterator[Sequence[TypeSink]]:
    """The sinks of the page. `uri`: of the PostgreSQL that one of them writes to; None: that one is left out."""
    with TemporaryDirectory() as folder:
        type_sinks: list[TypeSink] = [FolderSink("JSON", "jsonl", folder), SqliteSink(folder), FolderSink("Parquet", "parquet", folder)]
        if uri is None:
            yield type_sinks
            return
        import psycopg

        schema = f"types_{uuid.uuid4().hex[:10]}"
        with psycopg.connect(uri, autocommit=True) as link:
            link.execute(f"CREATE SCHEMA {schema}".encode())
            try:
                yield [*type_sinks, PostgresSink(uri, schema)]
            finally:
                link.execute(f"DROP SCHEMA {schema} CASCADE".encode())


def columns(logged: Iterable[str], uri: str | None = None) -> list[list[str]]:
    """For each value, as the log has it, what each of `sinks` holds."""
    with sinks(uri) as every:
        return [[sink.cell(number, value.encode()) for sink in every] for number, value in enumerate(logged)]
