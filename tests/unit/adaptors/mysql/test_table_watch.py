"""What statements of the binary log mean for the tables that are followed."""

from __future__ import annotations

import pytest

from headwater.adaptors.mysql.statements import logged_statement
from headwater.adaptors.mysql.table_watch import REMEMBERED, MysqlTableWatch
from headwater.core.errors import Differs, OffsetGone
from headwater.pipeline.namespaces import Namespaces


class Watching:
    """A watch of the tables `t` and `u` of the database `db`, with the keys that `now` says."""

    def __init__(self, chosen: str = r"\.[tu]$", database: str = "db", folding: int = 0) -> None:
        self.now = {"db.t": ("id",), "db.u": ("id",)}
        self.watch = MysqlTableWatch(Namespaces(chosen), database, keys=self.now, look=self._look, folding=folding)

    def _look(self, schema: str, name: str) -> dict[str, tuple[str, ...]]:
        return {key: self.now[key] for key in (f"{schema}.{name}",) if key in self.now}

    def sees(self, text: str, schema: str = "db") -> list[str]:
        return self.watch.stated(logged_statement(text), schema, text)


def test_a_truncate_tells_the_table_as_the_server_calls_it() -> None:
    assert Watching().sees("truncate t") == ["db.t"]
    assert Watching().sees("truncate db.t", "other") == ["db.t"]
    assert Watching().sees("truncate T") == []
    assert Watching(folding=1).sees("truncate DB.T", "other") == ["db.t"]
    assert Watching().sees("truncate t", "other") == []
    assert Watching().sees("truncate v") == []


def test_an_example_is_a_table_that_is_followed() -> None:
    assert Watching().watch.example() == "db.t"
    assert Watching(r"\.u$").watch.example() == "db.u"
    assert Watching(r"\.x$").watch.example() is None


@pytest.mark.parametrize(
    "text",
    [
        *("rename table t to t_old, t_new to t", "rename table t to x", "rename table x to t", "rename table x.y to db.t"),
        *(
            "alter table t rename x",
            "alter table x rename to t",
            "create or replace table t (id int)",
            "alter table t truncate partition p",
        ),
        *("alter table x exchange partition p with table t", "frobnicate t", "/* open"),
    ],
)
def test_rows_that_no_change_has_end_the_run(text: str) -> None:
    with pytest.raises(Differs) as raised:
        Watching().sees(text)
    assert "--again" in raised.value.hint


@pytest.mark.parametrize(
    "text",
    [
        *("rename table x to y", "alter table x rename y", "create or replace table x (t int)", "alter table x add t int, drop u"),
        *(
            "create table t (id int)",
            "drop table x",
            "create table x like t",
            "alter table t add v int",
            "create view v as select * from t",
        ),
        *(
            "drop temporary table t",
            "grant all on t to u",
            "insert into x values ('t')",
            "update mysql.user set x = 1",
            "rename table x.t to x.u",
        ),
    ],
)
def test_statements_about_other_tables_or_no_rows_pass(text: str) -> None:
    assert Watching().sees(text) == []


def test_a_statement_in_place_of_rows_ends_the_run() -> None:
    for text in ("insert into t(id) values (9)", "delete x from t x", "update (t) set id = 1", "select f()"):
        with pytest.raises(OffsetGone, match="statement"):
            Watching().sees(text)
    assert Watching().sees("select f()", "other") == []


@pytest.mark.parametrize("dropping", ["drop table if exists x, t", "drop database db", "create or replace database db"])
def test_a_dropped_table_that_is_created_anew_ends_the_run_also_after_a_restart(dropping: str) -> None:
    before, after = Watching(), Watching()
    assert before.sees(dropping) == []
    after.watch.dropped = before.watch.dropped
    assert after.sees("create table x (id int)") == []
    with pytest.raises(Differs, match=r"db\.t was dropped and created anew"):
        after.sees("create table t (id int)")


def test_the_dropped_tables_that_are_remembered_are_few() -> None:
    watching = Watching(chosen=".*")
    for number in range(3 * REMEMBERED):
        watching.sees(f"drop table job_{number}")
        watching.sees("drop table t")
    assert len(watching.watch.dropped) == REMEMBERED
    assert "db.t" in watching.watch.dropped


def test_another_key_ends_the_run() -> None:
    watching = Watching()
    watching.sees("alter table t drop primary key, add primary key (id)")
    watching.now["db.t"] = ("v",)
    watching.sees("alter table u add v int")
    with pytest.raises(Differs, match=r"told apart by \(v\), and were by \(id\)"):
        watching.sees("alter table t drop primary key, add primary key (v)")


def test_tables_of_the_server_and_of_sinks_are_not_followed() -> None:
    watching = Watching(chosen=".*", database="")
    assert watching.sees("drop table mysql.t") == watching.sees("create or replace table headwater_epoch (id int)") == []
    assert watching.watch.dropped == []
