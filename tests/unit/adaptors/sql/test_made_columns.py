"""What a table lacks for a batch."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from headwater.adaptors.postgres.columns import RULES
from headwater.adaptors.postgres.tables import PostgresColumn, PostgresTable
from headwater.adaptors.postgres.types import Kind, Type
from headwater.adaptors.sql.made_columns import MadeColumns
from headwater.core.errors import Rejected
from headwater.pipeline.columns import NeedsColumns
from headwater.pipeline.message import Message, Op
from headwater.pipeline.offsets.column_decision import decided
from headwater.pipeline.sink_adaptor import Part

PLACE = "public.t"


def messages(*documents: dict[str, Any], op: Op = Op.INSERT) -> list[Message]:
    return [Message("t", one, op, offset=number) for number, one in enumerate(documents)]


def made(*sample: dict[str, Any]) -> MadeColumns:
    tables = decided([(PLACE, one) for one in messages(*sample)], RULES).tables
    return MadeColumns(Part(pipeline="p", sink="s", start=0, end=9, columns=tables), RULES)


def table(**kinds: Kind) -> PostgresTable:
    columns = tuple(PostgresColumn(name, Type(kind), kind) for name, kind in kinds.items())
    return PostgresTable(schema="public", name="t", columns=columns, key=("_id",), oid=1)


def test_a_table_is_made_of_the_batchs_own_fields_with_the_decided_types_and_key() -> None:
    lacking = made({"_id": 1, "n": Decimal("1.50"), "other": "x"}, {"v": 1}).lacking(PLACE, None, messages({"v": 1, "n": 1}))
    assert lacking is not None
    assert {name: kind.kind for name, kind in lacking.missing.items()} == {"_id": "int", "v": "int", "n": "decimal"}
    assert (lacking.narrow, lacking.key) == ({}, ("_id",))


def test_a_table_that_has_everything_lacks_nothing() -> None:
    columns = made({"_id": 1, "n": 1})
    assert columns.lacking(PLACE, table(_id="int", n="int"), messages({"_id": 2, "n": 2, "never": None})) is None
    assert columns.lacking(PLACE, table(_id="int", n="int"), messages({"command": "truncate"}, op=Op.COMMAND)) is None


def test_a_column_of_integers_that_was_decided_to_be_wider_is_changed() -> None:
    lacking = made({"_id": 1, "n": Decimal("1.50")}).lacking(PLACE, table(_id="int", n="int"), messages({"_id": 2, "n": 1}))
    assert lacking is not None
    assert (lacking.missing, list(lacking.narrow)) == ({}, ["n"])


def test_what_is_not_decided_is_the_runs_to_decide() -> None:
    with pytest.raises(NeedsColumns):
        made({"_id": 1}).lacking(PLACE, table(_id="int"), messages({"_id": 2, "new": 1}))
    with pytest.raises(Rejected, match=r"The column n of public\.t is bigint"):
        made({"_id": 1, "n": 1}).lacking(PLACE, table(_id="int", n="int"), messages({"_id": 2, "n": "x"}))


def test_the_tables_own_type_counts_where_it_is_another() -> None:
    assert made({"_id": 1, "n": 1}).lacking(PLACE, table(_id="int", n="text"), messages({"_id": 2, "n": "x"})) is None
    assert made().lacking(PLACE, table(_id="int", n="text"), messages({"_id": "any", "n": 1})) is None


def test_a_delete_with_an_id_of_another_kind_is_refused() -> None:
    with pytest.raises(Rejected, match="The column _id"):
        made({"_id": 1}).lacking(PLACE, table(_id="int"), messages({"_id": "1", "rest": "x"}, op=Op.DELETE))
