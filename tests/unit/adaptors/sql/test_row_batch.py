"""Messages in row_batches that one statement can write."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from headwater.adaptors.mysql.rows import MySQLShape
from headwater.adaptors.mysql.tables import MysqlColumn, MysqlTable
from headwater.adaptors.sql.row_batch import row_batches
from headwater.core.errors import Rejected
from headwater.pipeline.message import Message, Op

COLUMNS = (MysqlColumn("id", "int", "int"), MysqlColumn("v", "text", "text"), MysqlColumn("n", "int", "int", default=True))
SHAPES = {name: MySQLShape(MysqlTable(schema="s", name=name, columns=COLUMNS, key=("id",), unique=(("id",),))) for name in ("t", "u")}


def message(data: dict[str, Any], op: Op = Op.INSERT, namespace: str = "t") -> Message:
    return Message(namespace, data, op, offset=7, id_fields=("id",))


def cut(*messages: Message, once: bool) -> list[tuple[str, str, list[Any]]]:
    return [(run.shape.table.name, run.op, [row["id"] for row in run.rows]) for run in row_batches(messages, SHAPES.__getitem__, once=once)]


def test_a_run_ends_where_table_kind_or_columns_change() -> None:
    given = [message({"id": n, "n": 1}) for n in (1, 2)]
    given += [message({"id": 3}), message({"id": 4}, Op.DELETE), message({"id": 5}, Op.DELETE), message({"id": 6}, namespace="u")]
    expected = [("t", "upsert", [1, 2]), ("t", "upsert", [3]), ("t", "delete", [4, 5]), ("u", "upsert", [6])]
    assert cut(*given, once=True) == cut(*given, once=False) == expected
    assert cut(once=True) == []


def test_an_id_that_comes_again_begins_a_run_where_a_statement_must_not_meet_it_twice() -> None:
    given = [message({"id": n}) for n in (1, 2, 1, 3, 1)]
    assert cut(*given, once=True) == [("t", "upsert", [1, 2]), ("t", "upsert", [1, 3]), ("t", "upsert", [1])]
    assert cut(*given, once=False) == [("t", "upsert", [1, 2, 1, 3, 1])]


def test_ids_that_a_table_may_call_equal_are_not_in_one_statement_either() -> None:
    given = [message({"id": one}) for one in ("a", "b", "A", 7, Decimal("7.0"), "7")]
    assert [ids for _, _, ids in cut(*given, once=True)] == [["a", "b"], ["A", 7], [Decimal("7.0")], ["7"]]
    assert [ids for _, _, ids in cut(*given, once=False)] == [["a", "b", "A", 7, Decimal("7.0"), "7"]]


def test_commands() -> None:
    (found,) = row_batches([message({"command": "truncate"}, Op.COMMAND)], SHAPES.__getitem__, once=True)
    assert found.op == "truncate"
    with pytest.raises(Rejected, match="not known") as refused:
        list(row_batches([message({"command": "dance"}, Op.COMMAND)], SHAPES.__getitem__, once=True))
    assert refused.value.offset == 7
    assert "ack" in refused.value.hint
