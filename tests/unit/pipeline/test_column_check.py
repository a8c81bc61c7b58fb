"""Batches against decided columns."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from headwater.adaptors.file.parquet_columns import RULES as PARQUET
from headwater.adaptors.sqlite.columns import RULES
from headwater.core.errors import Rejected
from headwater.pipeline.column_check import ColumnCheck
from headwater.pipeline.columns import ColumnType, NeedsColumns, TableColumns, Tables
from headwater.pipeline.message import Message
from headwater.pipeline.offsets.column_decision import decided


def messages(*documents: dict[str, Any]) -> list[Message]:
    return [Message("t", one, offset=10 + number) for number, one in enumerate(documents)]


def checked(check: ColumnCheck, *documents: dict[str, Any], given: tuple[str, ...] = ()) -> TableColumns:
    names = {name for one in documents for name in one}
    return check.checked("t", messages(*documents), {name: [one.get(name) for one in documents] for name in sorted(names)}, given=given)


def known(*documents: dict[str, Any]) -> Tables:
    return decided([("t", one) for one in messages(*documents)], RULES).tables


def test_a_batch_that_fits_needs_nothing() -> None:
    check = ColumnCheck(known({"_id": 1, "v": "x"}), RULES)
    assert checked(check, {"_id": 2, "v": None}, {"_id": 3}).shown() == {"_id": "int", "v": "text"}
    assert checked(check, {"_id": 2, "never": None}).shown() == {"_id": "int", "v": "text"}


def test_new_and_wider_columns_are_the_runs_to_decide() -> None:
    check = ColumnCheck(known({"_id": 1, "v": 1}), RULES)
    with pytest.raises(NeedsColumns) as lacking:
        checked(check, {"_id": 2, "v": 2}, {"_id": 3, "v": Decimal("1.50"), "new": 1}, {"_id": 4, "new": Decimal("2.50")})
    needs = lacking.value.needs
    assert (needs.table, needs.offset, needs.key) == ("t", 11, ("_id",))
    assert {name: one.kind for name, one in needs.types.items()} == {"v": "decimal", "new": "decimal"}


def test_each_column_has_the_first_message_that_needs_it() -> None:
    before = decided([("t", one) for one in messages({"_id": 1, "a": 1, "b": 1})], RULES)
    with pytest.raises(NeedsColumns) as lacking:
        checked(ColumnCheck(before.tables, RULES), {"_id": 2}, {"_id": 3, "a": Decimal("1.50")}, {"_id": 4, "b": Decimal("1.50")})
    changes = before.extended(lacking.value.needs, RULES, at=0).changes
    assert {one.column: one.offset for one in changes} == {"a": 11, "b": 12}


def test_the_first_message_that_does_not_fit_is_refused_once_all_before_it_have_columns() -> None:
    documents = [{"_id": 1, "v": Decimal("1.50")}, {"_id": 2, "v": "x"}, {"_id": 3, "v": "y"}]
    with pytest.raises(NeedsColumns):
        checked(ColumnCheck(known({"_id": 1, "v": 1}), RULES), *documents)
    with pytest.raises(Rejected, match="The column v of t is NUMERIC") as no:
        checked(ColumnCheck(known({"_id": 1, "v": Decimal("1.50")}), RULES), *documents)
    assert (no.value.offset, no.value.untouched) == (11, True)
    assert "headwater pipeline edit" in no.value.hint


def test_without_a_decision_batches_decide() -> None:
    check = ColumnCheck(None, RULES)
    assert checked(check, {"v": 0}, {"_id": 1, "v": 1}).key == ("_id",)
    assert checked(check, {"_id": 2, "v": Decimal("1.50")}).shown() == {"_id": "int", "v": "decimal"}
    with pytest.raises(Rejected):
        checked(check, {"_id": 3, "v": "x"})


def test_columns_that_the_table_had_are_not_looked_at() -> None:
    check = ColumnCheck({"t": TableColumns()}, RULES)
    assert checked(check, {"_id": 1, "v": 1}, {"_id": "x", "v": "x"}, given=("_id", "v")) == TableColumns()


def test_a_field_that_differs_from_a_column_in_nothing_but_case_is_refused_where_readers_know_no_case() -> None:
    """Before, both became columns, and Spark read nothing of the folder any more."""
    both = r"The column User of t cannot be beside the column user: their names differ in nothing but case\."
    for tables in (None, {"t": TableColumns(columns={"user": ColumnType("text")})}):
        with pytest.raises(Rejected, match=both) as no:
            checked(ColumnCheck(tables, PARQUET), {"user": "x"}, {"User": None}, {"user": "y", "User": "z"})
        assert no.value.offset == 12
    with pytest.raises(NeedsColumns) as lacking:
        checked(ColumnCheck({}, PARQUET), {"User": "x"}, {"user": "y"})
    assert list(lacking.value.needs.types) == ["User"]
    assert checked(ColumnCheck(None, RULES), {"user": "x", "User": "z"}).shown() == {"user": "text", "User": "text"}


def test_fields_of_objects_that_differ_in_nothing_but_case_are_refused_too() -> None:
    check = ColumnCheck(None, PARQUET)
    with pytest.raises(Rejected, match=r"The column o of t can have no type that holds .*object.a: int, A: int"):
        checked(check, {"o": {"a": 1, "A": 2}})
    checked(check, {"o": {"a": 1}})
    with pytest.raises(Rejected, match=r"The column o of t is struct<a: int64>, and the message has .*object.A: int"):
        checked(check, {"o": {"A": 1}})


def test_what_a_column_holds_is_said_where_its_type_does_not_say_it() -> None:
    check = ColumnCheck(None, PARQUET)
    checked(check, {"u": {"$uuid": "00000000-0000-0000-0000-000000000001"}, "n": "x"})
    with pytest.raises(Rejected, match=r'The column u of t is string \(uuid\), and the message has "3b24" \(text\) there'):
        checked(check, {"u": "3b24"})
    with pytest.raises(Rejected, match=rf"The column n of t is string, and the message has {2**63} \(integer beyond 64 bits\) there"):
        checked(check, {"n": 2**63})
