"""Keys that a database calls equal although they differ: each change of a row arrives in order, however tasks share the changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import psycopg
import pytest
from mysql_ground import a_mysql_ground
from postgres_ground import a_postgres_ground
from psycopg.errors import UndefinedFile
from sql_ground import Ground, followed, insert, write

from headwater.adaptors.mysql.connection import MySQLSession, parsed
from headwater.log import TopicSettings
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Mode
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file
from headwater.pipeline.id_hash import fold
from headwater.pipeline.message import Message, Op
from headwater.pipeline.running.part_delivery import deliver_part
from headwater.pipeline.running.pieces import FOLLOWING, append
from headwater.pipeline.running.work import CopyProgress, SinkWork
from headwater.pipeline.source_adaptor import Piece

ROWS = 120
TEXTS = [f"k{number}-äß{number % 7}é" for number in range(ROWS)]
MARIADB = [f"varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_{name}" for name in ("general_ci", "uca1400_ai_ci", "german2_ci")]
KEYS = [
    *(pytest.param("mariadb", kind, marks=pytest.mark.service("mariadb"), id=kind.rpartition("_")[0][-12:]) for kind in MARIADB),
    *(
        pytest.param("postgres", kind, marks=pytest.mark.service("postgres"), id=kind)
        for kind in ("text COLLATE loose", "citext", "numeric")
    ),
]


@pytest.fixture
def ground(request: pytest.FixtureRequest, server: str, kind: str) -> Iterator[Ground]:
    made = a_mysql_ground(request.getfixturevalue(server)) if server == "mariadb" else a_postgres_ground(request.getfixturevalue(server))
    with made as ground:
        if "loose" in kind:
            ground.run("CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)")
        elif kind == "citext":
            try:
                ground.run(f"CREATE EXTENSION citext SCHEMA {ground.name}")
            except UndefinedFile:
                pytest.skip("This PostgreSQL has no citext; a nondeterministic collation stands for it.")
        ground.run(*(f"CREATE TABLE {name} (id {kind} PRIMARY KEY, v int)" for name in ("src", "t")))
        yield ground


def rows(ground: Ground, table: str) -> list[tuple[Any, ...]]:
    return sorted(ground.all(f"SELECT id, v FROM {table}"), key=str)


def deliver(folder: Path, ground: Ground, messages: list[Message], order: list[int]) -> None:
    """By as many tasks as the order has numbers, one after the other."""
    pipeline = Pipeline("p")
    pipeline.source("in", file("in.jsonl")).save("out", ground.sink())
    sink = pipeline.sinks["out"]
    sink.adaptor.begin("p", "out", 1)
    with EmbeddedLog(folder) as log:
        log.create_topic("log", settings=TopicSettings())
        for one in messages:
            one.namespace = "t"
        piece = Piece(position=None, messages=messages)
        append(log.claim("log", 0), piece, "", CopyProgress("c", FOLLOWING), ids={"t": ("id",)}, mode=Mode.SYNC)
        work = SinkWork(pipeline="p", topic="log", sink=sink, epoch=1, ids={"t": ("id",)})
        for bucket in order:
            part = work.part("p", 0, len(messages), bucket=bucket, buckets=len(order))
            outcome = deliver_part(log, work, part, batch=50)
            assert (outcome.failure, outcome.acked) == (None, len(messages))


@pytest.mark.parametrize(("server", "kind"), KEYS)
def test_rows_whose_keys_change_into_equal_ones_are_not_lost(ground: Ground, kind: str, tmp_path: Path) -> None:
    """A key that is written in capitals, changes on, and is used again by another row."""
    numbers = kind == "numeric"
    ids = [f"{number + 1}.5" for number in range(ROWS)] if numbers else [f"'{text}'" for text in TEXTS]
    equal, other = ("id + 0.00", "id + 1000") if numbers else ("UPPER(id)", "CONCAT('b', id)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen("src"), 1).cursor
    ground.fill("src", (f"({one}, {number})" for number, one in enumerate(ids)))
    ground.run(f"UPDATE src SET id = {equal}", f"UPDATE src SET id = {other} WHERE v % 3 = 0")
    ground.fill("src", (f"({one}, {1000 + number})" for number, one in enumerate(ids) if number % 3 == 0))
    ground.run("DELETE FROM src WHERE v % 5 = 4")
    expected = ROWS + 2 * ROWS + 2 * ROWS // 3 + ROWS // 3 + (ROWS + ROWS // 3) // 5
    messages, _ = followed(source, cursor, ground.chosen("src"), expected)
    assert len(messages) == expected
    deliver(tmp_path, ground, messages, [2, 1, 0])
    assert rows(ground, "t") == rows(ground, "src")


@pytest.mark.parametrize(("server", "kind"), KEYS)
def test_a_batch_may_have_two_keys_that_are_one_row(ground: Ground, kind: str) -> None:
    """From a source that tells them apart. The last one is there in the end, with its own spelling."""
    first, second = (1.5, Decimal("1.50")) if kind == "numeric" else ("Key", "KEY")
    write(ground.sink(), [insert(0, id=first, v=1), insert(1, id=second, v=2), insert(2, id=first, v=3), insert(3, id=second, v=4)])
    assert [(str(one), v) for one, v in rows(ground, "t")] == [(str(second), 4)]
    write(ground.sink(), [Message("t", {"id": first}, Op.DELETE, offset=4, id_fields=("id",)), insert(5, id=first, v=5)], start=4)
    assert [(str(one), v) for one, v in rows(ground, "t")] == [(str(first), 5)]


PLANE = [chr(code) for code in range(1, 0x10000) if not 0xD800 <= code < 0xE000]


@pytest.mark.parametrize("collation", ["general_ci", "uca1400_ai_ci", "danish_ci"])
def test_every_letter_that_mariadb_calls_equal_to_others_has_their_fold(mariadb: str, collation: str) -> None:
    """Also those that are equal to several: a text weighs what its letters weigh, so equal texts have equal folds."""
    question = (
        f"SELECT seq, HEX(WEIGHT_STRING(CONVERT(CHAR(seq USING ucs2) USING utf8mb4) COLLATE utf8mb4_{collation})) FROM seq_1_to_65535"
    )
    with closing(MySQLSession(parsed(mariadb))) as session:
        weights = {chr(code): str(weight or "") for code, weight in session.ask(question)}
    folds: dict[str, str] = {}  # by weight
    for letter in sorted(PLANE, key=lambda one: len(weights[one])):
        weight = weights[letter]
        parts = [weight[at : at + 4] for at in range(0, len(weight), 4)]
        known = "".join(folds[one] for one in parts) if all(one in folds for one in parts) else folds.setdefault(weight, fold(letter))
        assert fold(letter) == known, f"{letter!r} weighs {weight}"


@pytest.mark.parametrize("locale", ["und-u-ks-level1", "und-u-ks-level1-ka-shifted-kn", "fi-u-ks-level1", "to-u-ks-level1"])
def test_every_letter_that_icu_calls_equal_to_others_has_their_fold(postgres: str, locale: str) -> None:
    pairs = ["".join(pair) for pair in product("abcdefghijklmnopqrstuvwxyz", repeat=2)]
    with psycopg.connect(postgres) as link:
        link.execute(f"CREATE COLLATION pg_temp.loose (provider = icu, locale = '{locale}', deterministic = false)")
        link.execute('CREATE TEMP TABLE letters (one text COLLATE "C")')
        with link.cursor() as cursor, cursor.copy("COPY letters FROM STDIN") as copy:
            for one in [*PLANE, *pairs, *map(str, range(100)), "007"]:
                copy.write_row((one,))
        equal = link.execute("SELECT array_agg(one) FROM letters GROUP BY one COLLATE pg_temp.loose HAVING count(*) > 1").fetchall()
        link.rollback()
    assert len(equal) > 1000
    assert [some for (some,) in equal if len(set(map(fold, some))) > 1] == []
