"""A record that a sink refuses: seen, corrected or skipped, sent, and in the audit; by the commands that people type."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked_program import ForkedProgram
from pipeline_home import SHOP, Home

POISON = 14


@pytest.fixture
def home(tmp_path: Path, forked_program: ForkedProgram) -> Home:
    """A pipeline that stands at message 14 of sixteen: the report cannot take it, the archive has everything."""
    made = Home(tmp_path, forked_program)
    made.write("shop.py", SHOP)
    made.documents(16, at14={"price": None})
    ran = made.pipeline("run", "shop.py")
    assert ran.code == 9, ran.err
    made.first = ran.err  # type: ignore[attr-defined]
    return made


def test_the_run_names_sink_offset_error_and_the_next_commands(home: Home) -> None:
    said = home.first  # type: ignore[attr-defined]
    assert "Sink report of shop stands at message 14: Transform python(with_total) raised TypeError" in said
    assert "archive: 16 written, at 16 of 16" in said
    assert 'Message 14, insert of orders: {"_id":14,"item":"pen","price":null,"qty":0}' in said
    for command in (
        "headwater pipeline xlog shop show 14",
        "headwater pipeline edit shop 14 --set FIELD=JSON --why ...",
        "headwater pipeline ack shop report 14 --why ...",
    ):
        assert command in said
    assert home.positions() == {"archive": 16, "report": 13}
    assert home.rows("select max(_id) from orders") == [(13,)]


def test_status_and_list_show_where_it_stands(home: Home) -> None:
    found = home.pipeline("status", "shop", "--json").json
    assert found["state"] == "stopped at report"
    [report] = [one for one in found["sinks"] if one["sink"] == "report"]
    assert (report["position"], report["lag"], report["state"]) == (13, 3, "stopped")
    assert report["error"]["offset"] == POISON
    assert report["error"]["error"] == "TypeError"
    assert "with_total" in report["error"]["trace"]
    told = home.pipeline("status", "shop").out
    assert "14: Transform python(with_total) raised TypeError" in told
    assert "See message 14, and what to do: headwater pipeline xlog shop show 14" in told
    shown = home.pipeline("xlog", "shop", "show", "14")
    assert 'shop.py", line 7, in with_total' in shown.out
    assert "Correct it: headwater pipeline edit shop 14 --set FIELD=JSON --why ..." in shown.err
    assert "Skip it:    headwater pipeline ack shop report 14 --why ..." in shown.err
    assert home.pipeline("offset", "shop", "show", "report", "--json").json["namespaces"] == {"orders": 13}
    assert "stopped at report" in home.pipeline("list").out


def test_the_next_commands_are_for_the_same_data_directory(tmp_path: Path, forked_program: ForkedProgram) -> None:
    home = Home(tmp_path, forked_program)
    home.write("shop.py", SHOP)
    home.documents(3, at1={"price": None})
    ran = home.pipeline("run", "shop.py", "--data", "the data")
    assert ran.code == 9
    for words in ("xlog shop show 1", "edit shop 1 --set FIELD=JSON --why ...", "ack shop report 1 --why ..."):
        assert f"    headwater pipeline {words} --data 'the data'\n" in ran.err
    told = home.pipeline("status", "shop", "--data", "the data").out
    assert told.splitlines()[-1] == "See message 1, and what to do: headwater pipeline xlog shop show 1 --data 'the data'"
    ran = home.pipeline("status", "shpo", "--data", "the data")
    assert "`headwater pipeline list --data 'the data'`" in ran.err


def test_every_sink_that_stands_is_named(tmp_path: Path, forked_program: ForkedProgram) -> None:
    home = Home(tmp_path, forked_program)
    more = 'rows.transform(python(with_total)).save("other", sqlite("other.db"), on_error=Retry(1, "1ms"))\n'
    home.write("shop.py", SHOP.replace("Pipeline, python", "Pipeline, Retry, python") + more)
    home.documents(9, at4={"price": None})
    ran = home.pipeline("run", "shop.py")
    assert ran.code == 9
    assert "Sink report of shop stands at message 4" in ran.err
    assert "  other stands at message 4: Transform python(with_total) raised TypeError" in ran.err
    assert "    headwater pipeline ack shop other 4 --why ...\n" in ran.err


def test_a_second_run_tries_again_and_stops_at_the_same_message(home: Home) -> None:
    ran = home.pipeline("run", "shop.py", "--json")
    assert ran.code == 9
    assert ran.problem["code"] == "stopped"
    assert home.positions() == {"archive": 16, "report": 13}


def test_edited_and_run_again(home: Home) -> None:
    shown = home.pipeline("xlog", "shop", "show", "14", "--json").lines
    assert shown[0]["data"] == {"_id": 14, "item": "pen", "price": None, "qty": 0}
    assert shown[0]["edited"] is False
    before = home.end_of_offsets()
    tried = home.pipeline("edit", "shop", "14", "--set", "price=1.10", "--why", "left out", "--dry-run")
    assert tried.out == 'Message 14 would be delivered as {"_id":14,"item":"pen","price":1.10,"qty":0}\n'
    assert home.end_of_offsets() == before
    edited = home.pipeline("edit", "shop", "14", "--set", "price=1.10", "--set", "qty=2", "--why", "left out")
    assert edited.err.splitlines() == [
        "Send it to report: headwater pipeline step shop report",
        "archive has taken it as it was: headwater pipeline replay shop archive 14",
    ]
    assert "delivered to every sink as" in home.pipeline("xlog", "shop", "show", "14").out
    ran = home.pipeline("run", "shop.py")
    assert ran.code == 0, ran.err
    assert home.rows("select price, total from orders where _id = 14") == [(1.1, 2.2)]
    assert home.positions() == {"archive": 16, "report": 16}
    shown = home.pipeline("xlog", "shop", "show", "14", "--json").lines  # the original stays
    assert (shown[0]["data"]["price"], shown[0]["edited"]) == (None, True)
    verified = home.pipeline("verify", "shop", "report")
    assert (verified.code, verified.out.splitlines()[-1]) == (0, "verify: equal")
    [entry] = home.pipeline("audit", "shop", "--json").json
    assert (entry["what"], entry["why"], entry["details"]["offset"]) == ("edit", "left out", 14)
    assert entry["details"]["old"] == '{"_id": 14, "item": "pen", "price": null, "qty": 0}'
    assert entry["details"]["new"] == '{"_id":14,"item":"pen","price":1.10,"qty":2}'
    assert entry["who"]
    assert entry["at"].endswith("Z")


def test_undo_delivers_the_original_again(home: Home) -> None:
    assert home.pipeline("edit", "shop", "14", "--set", "price=1", "--why", "guess").code == 0
    assert home.pipeline("edit", "shop", "14", "--undo", "--why", "wrong guess").code == 0
    assert home.pipeline("run", "shop.py").code == 9
    again = home.pipeline("edit", "shop", "14", "--undo", "--why", "twice")
    assert (again.code, "has no corrected copy" in again.err) == (3, True)
    assert [one["what"] for one in home.pipeline("audit", "shop", "--json").json] == ["edit", "undo"]


def test_an_edit_for_one_sink_a_whole_document_and_a_field_less(home: Home) -> None:
    home.write("right.json", '{"_id": 14, "item": "ink", "price": 3, "qty": 2, "note": "x"}')
    assert home.pipeline("edit", "shop", "14", "--doc", "right.json", "--sink", "report", "--why", "found it").code == 0
    assert home.pipeline("edit", "shop", "14", "--unset", "note", "--sink", "report", "--why", "no notes").code == 0
    assert home.pipeline("run", "shop.py").code == 0
    assert home.rows("select item, total from orders where _id = 14") == [("ink", 6)]
    assert "note" not in [row[1] for row in home.rows("pragma table_info(orders)")]
    assert home.pipeline("verify", "shop", "archive").code == 0  # the other sink keeps the original


def test_skipped_with_ack(home: Home) -> None:
    before = home.end_of_offsets()
    tried = home.pipeline("ack", "shop", "report", "14", "--why", "a test order", "--dry-run")
    assert tried.out == "Message 14 would count as taken by report, which is at 14.\n"
    assert home.end_of_offsets() == before
    assert home.pipeline("ack", "shop", "report", "14").code == 5  # no reason
    assert home.pipeline("ack", "shop", "report", "14", "--why", "a test order").code == 0
    assert home.pipeline("run", "shop.py").code == 0
    assert [row[0] for row in home.rows("select _id from orders order by 1")] == [n for n in range(16) if n != POISON]
    assert home.pipeline("verify", "shop", "report").code == 0
    twice = home.pipeline("ack", "shop", "report", "14", "--why", "again")
    assert (twice.code, "headwater pipeline replay shop report 14" in twice.err) == (4, True)


def test_steps_stop_at_the_message_and_go_on_once_it_is_mended(home: Home) -> None:
    ran = home.pipeline("step", "shop", "report")
    assert (ran.code, ran.out) == (9, "")
    assert "Sink report of shop refuses message 14" in ran.err
    assert 'Message 14, insert of orders: {"_id":14,"item":"pen","price":null,"qty":0}' in ran.err
    assert home.pipeline("step", "shop", "report", "--dry-run").out == "Message 14 would be delivered to report.\n"
    assert home.pipeline("edit", "shop", "14", "--set", "price=1", "--why", "left out").code == 0
    assert home.pipeline("step", "shop", "report").out == "report has taken message 14.\n"
    assert home.positions()["report"] == 14
    stepped = home.pipeline("step", "shop", "report", "--count", "5", "--json").json
    assert (stepped["taken"], stepped["position"]) == (2, 16)
    assert home.pipeline("step", "shop", "report").out == "report has everything.\n"
    assert home.pipeline("step", "shop", "report", "--dry-run").out == "report has everything.\n"
    assert home.rows("select count(*) from orders") == [(16,)]


def test_marked_forward_and_back(home: Home) -> None:
    before = home.end_of_offsets()
    assert home.pipeline("offset", "shop", "mark", "report", "14", "--why", "skip", "--dry-run").code == 0
    assert home.end_of_offsets() == before
    assert home.pipeline("offset", "shop", "mark", "report", "14").code == 5  # no reason
    assert home.pipeline("offset", "shop", "mark", "report", "14", "--why", "skip").out == "report is at 14; it was at 13.\n"
    assert home.pipeline("run", "shop.py").code == 0
    assert home.rows("select count(*) from orders") == [(15,)]
    assert home.pipeline("offset", "shop", "mark", "report", "9", "--why", "send again").code == 0
    ran = home.pipeline("run", "shop.py")
    assert ran.code == 9
    assert "report: 4 written, at 13 of 16" in ran.err
    assert home.rows("select count(*) from orders") == [(15,)]  # rows were written over, not added


def test_marked_back_at_a_folder_of_files(home: Home) -> None:
    assert home.pipeline("offset", "shop", "mark", "archive", "-1", "--why", "all again").code == 0
    home.pipeline("run", "shop.py")
    assert home.ids("archive") == list(range(16))
    assert home.positions()["archive"] == 16


def test_replay_sends_again_and_moves_nothing(home: Home) -> None:
    home.change("update orders set item = 'lost' where _id in (3, 4)")
    differs = home.pipeline("verify", "shop", "report")
    assert differs.code == 8
    assert "Send what is missing again with `headwater pipeline replay shop report X..Y --why ...`" in differs.err
    assert "delete them at the sink" in differs.err  # a replay removes nothing
    assert "headwater pipeline offset shop mark report -1 --why ..." in differs.err
    before = home.end_of_offsets()
    assert home.pipeline("replay", "shop", "report", "3..4", "--dry-run").out == "Messages 3..4 would be sent again.\n"
    assert home.end_of_offsets() == before
    assert home.pipeline("replay", "shop", "report", "3..4", "--why", "changed by hand").code == 0
    assert home.pipeline("verify", "shop", "report").code == 0
    assert home.positions()["report"] == 13
    refused = home.pipeline("replay", "shop", "report", "13..15")
    assert (refused.code, "refuses message 14" in refused.err) == (9, True)


def test_offset_delete_forgets_a_sink(home: Home) -> None:
    refused = home.pipeline("offset", "shop", "delete", "archive", "--why", "gone")  # the next run would deliver everything again
    assert (refused.code, "headwater pipeline offset shop mark archive -1 --why ..." in refused.err) == (4, True)
    home.write("shop.py", SHOP.replace('rows.save("archive", file("archive/", format="jsonl"))\n', ""))
    assert home.pipeline("run", "shop.py").code == 9
    before = home.end_of_offsets()
    assert home.pipeline("offset", "shop", "delete", "archive", "--why", "gone", "--dry-run").code == 0
    assert home.end_of_offsets() == before
    assert home.pipeline("offset", "shop", "delete", "archive", "--why", "gone").code == 0
    assert set(home.positions()) == {"report"}
    assert home.pipeline("offset", "shop", "show", "archive").code == 3


def test_put_aside_listed_shown_mended_sent_and_dropped(tmp_path: Path, forked_program: ForkedProgram) -> None:
    home = Home(tmp_path, forked_program)
    home.documents(16, at5={"price": None}, at9={"price": "much"}, at14={"price": None})
    policy = 'table="orders"), on_error=DeadLetter())'
    home.write("shop.py", SHOP.replace('table="orders"))', policy).replace("Pipeline, python", "DeadLetter, Pipeline, python"))
    ran = home.pipeline("run", "shop.py")
    assert ran.code == 0, ran.err
    assert home.positions() == {"archive": 16, "report": 16}
    assert [one["offset"] for one in home.pipeline("dead", "shop", "list", "--json").json] == [5, 14]
    assert "2 messages are put aside: headwater pipeline dead shop list" in ran.err
    assert "2 messages are put aside: headwater pipeline dead shop list" in home.pipeline("status", "shop").out
    shown = home.pipeline("dead", "shop", "show", "5")
    assert "message 5 for report, put aside" in shown.out
    assert 'orders insert {"_id":5' in shown.out
    assert home.pipeline("dead", "shop", "show", "5", "--json").json["record"]["data"]["_id"] == 5
    assert home.pipeline("dead", "shop", "show", "6").code == 3
    again = home.pipeline("dead", "shop", "retry", "5")
    assert (again.code, "refuses message 5 again" in again.err) == (9, True)
    assert home.pipeline("edit", "shop", "5", "--set", "price=1", "--why", "left out").code == 0
    assert home.pipeline("dead", "shop", "retry", "5", "--why", "mended").out == "Message 5 is taken (report).\n"
    assert home.pipeline("dead", "shop", "drop", "14").code == 5  # no reason
    assert home.pipeline("dead", "shop", "drop", "14", "--why", "a test", "--dry-run").out == "Message 14 would be let go (report).\n"
    assert home.pipeline("dead", "shop", "drop", "14", "--why", "a test").code == 0
    assert home.pipeline("dead", "shop", "list", "--json").json == []
    assert home.rows("select total from orders where _id = 5") == [(5,)]
    assert home.rows("select count(*) from orders") == [(15,)]
    assert [one["what"] for one in home.pipeline("audit", "shop", "--json").json] == [
        "dead retry", "edit", "dead retry", "drop",
    ]  # fmt: skip
    assert home.pipeline("verify", "shop", "report").code == 0  # what was let go is not expected


def test_what_was_put_aside_does_not_come_over_a_newer_state_unasked(tmp_path: Path, forked_program: ForkedProgram) -> None:
    home = Home(tmp_path, forked_program)
    home.documents(16, at5={"price": None}, at9={"_id": 5, "price": 7, "qty": 1})
    policy = 'table="orders"), on_error=DeadLetter())'
    home.write("shop.py", SHOP.replace('table="orders"))', policy).replace("Pipeline, python", "DeadLetter, Pipeline, python"))
    assert home.pipeline("run", "shop.py").code == 0
    assert home.pipeline("edit", "shop", "5", "--set", "price=1", "--why", "left out").code == 0
    for more in ([], ["--dry-run"]):
        refused = home.pipeline("dead", "shop", "retry", "5", *more)
        assert (refused.code, "Sink report has taken message 9, a newer one of the same document" in refused.err) == (4, True)
    assert home.rows("select total from orders where _id = 5") == [(7,)]
    assert home.pipeline("dead", "shop", "retry", "5", "--force").out == "Message 5 is taken (report).\n"
    assert home.rows("select total from orders where _id = 5") == [(5,)]
    replayed = home.pipeline("replay", "shop", "report", "5")
    assert replayed.err.splitlines() == [
        "They have come over message 9, a newer one of the same document. To send that and all between as well:",
        "  headwater pipeline replay shop report 5..9",
    ]
    assert home.pipeline("replay", "shop", "report", "5..9").err == ""
    assert home.rows("select total from orders where _id = 5") == [(7,)]
    assert home.pipeline("replay", "shop", "archive", "5").err == ""  # a file keeps both


def test_retry_then_put_aside(tmp_path: Path, forked_program: ForkedProgram) -> None:
    home = Home(tmp_path, forked_program)
    home.documents(16, at14={"price": None})
    policy = 'table="orders"), on_error=Retry(2, "1ms", DeadLetter()))'
    home.write("shop.py", SHOP.replace('table="orders"))', policy).replace("Pipeline, python", "DeadLetter, Pipeline, Retry, python"))
    assert home.pipeline("run", "shop.py").code == 0
    [one] = home.pipeline("dead", "shop", "list", "--json").json
    assert (one["offset"], one["tries"]) == (14, 3)


def test_compacting_keeps_the_last_message_of_each_namespace_and_what_is_gone_is_said(
    tmp_path: Path, forked_program: ForkedProgram
) -> None:
    home = Home(tmp_path, forked_program)
    (tmp_path / "in").mkdir()
    for name in ("in/a.jsonl", "in/b.jsonl"):
        home.documents(60, name=name)
    pipeline = SHOP.replace('Pipeline("shop")', 'Pipeline("shop", segment="1KiB", slices=1)').replace("orders.jsonl", "in/")
    home.write("shop.py", pipeline)
    assert home.pipeline("run", "shop.py", HEADWATER_SPARK__START="never").code == 0
    assert home.pipeline("verify", "shop", "report").code == 0  # two namespaces, one table
    before = home.end_of_offsets()
    assert home.pipeline("compact", "shop", "--dry-run").out == "Closed segments below 122 would be compacted.\n"
    assert home.end_of_offsets() == before
    assert home.pipeline("compact", "shop").out.startswith("Below 122: ")
    assert home.pipeline("xlog", "shop", "current").out == "121\n"
    left = home.pipeline("xlog", "shop", "show", "0..121", "--json").lines
    assert [one["namespace"] for one in left if one["op"] == "insert"] == ["a", "b"]
    gone = home.pipeline("xlog", "shop", "show", "3")
    assert (gone.code, gone.out, "compaction has taken it" in gone.err) == (0, "", True)
    for words in (
        ["replay", "shop", "report", "3..4"],
        ["offset", "shop", "mark", "report", "3", "--why", "again"],
        ["verify", "shop", "report"],
    ):
        ran = home.pipeline(*words)
        assert (ran.code, "Compaction has removed messages" in ran.err) == (5, True), ran
    assert home.positions() == {"archive": 121, "report": 121}
    assert home.pipeline("run", "shop.py").code == 0
    assert len(home.ids("archive")) == 120


@pytest.mark.spark
def test_what_a_sql_transform_refuses_is_mended_and_sent_by_hand(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.documents(4, at2={"qty": 0}, at0={"qty": 1}, at1={"qty": 2}, at3={"qty": 4})
    home.write(
        "shop.py",
        """
from headwater.pipeline import Pipeline, sql
from headwater.pipeline.adaptors import file, sqlite

p = Pipeline("shop")
rows = p.source("orders", file("orders.jsonl"))
rows.transform(sql("*, price / qty AS each")).save("report", sqlite("report.db", table="orders"))
""",
    )
    ran = home.pipeline("run", "shop.py")
    assert (ran.code, "DIVIDE_BY_ZERO" in ran.err) == (9, True), ran.err
    assert home.positions() == {"report": 1}
    assert home.pipeline("edit", "shop", "2", "--set", "qty=8", "--why", "left out").code == 0
    assert home.pipeline("step", "shop", "report", "--count", "9").code == 0
    assert home.rows("select each from orders order by _id") == [(2.0,), (1.0,), (0.25,), (0.5,)]
