"""`headwater pipeline init | about | test | run | list | status`, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forked_program import ForkedProgram
from pipeline_home import SHOP, Home, ended


@pytest.fixture
def home(tmp_path: Path, forked_program: ForkedProgram) -> Home:
    made = Home(tmp_path, forked_program)
    made.write("shop.py", SHOP)
    return made


# -- beginning --------------------------------------------------------------------------------------------------


def test_init_writes_a_file_that_can_be_filled_in_and_run(home: Home) -> None:
    ran = home.pipeline("init", "file", "sqlite", "--file", "copy.py")
    assert (ran.code, ran.err) == (0, "")
    assert "headwater pipeline test copy.py" in ran.out
    home.documents(5)
    ran = home.pipeline("run", "copy.py")
    assert ran.code == 0, ran.err
    assert home.rows("select count(*) from orders", "orders.db") == [(5,)]


def test_init_leaves_a_file_that_is_there_alone(home: Home) -> None:
    before = (home.home / "shop.py").read_text()
    ran = home.pipeline("init", "file", "file", "--file", "shop.py")
    assert (ran.code, ran.out) == (4, "")
    assert "is there already" in ran.err
    assert (home.home / "shop.py").read_text() == before


def test_init_writes_nothing_for_an_adaptor_that_does_not_exist(home: Home) -> None:
    ran = home.pipeline("init", "fiel", "sqlite")
    assert ran.code == 3
    assert "Did you mean file?" in ran.err
    assert not (home.home / "pipeline.py").exists()


def test_about_tells_of_all_adaptors_and_of_one(home: Home) -> None:
    names = [one["name"] for one in home.pipeline("about", "--json").json]
    assert {"file", "sqlite"} <= set(names)
    listed = home.pipeline("about").out.splitlines()
    assert [line.split()[0] for line in listed] == ["adaptor", *names]
    told = home.pipeline("about", "sqlite")
    assert told.code == 0
    assert "(exactly once)" in told.out
    assert "table = None" in told.out
    ran = home.pipeline("about", "sqlit", "--json")
    assert (ran.code, ran.problem["hint"]) == (3, "Did you mean sqlite? See `headwater pipeline about sqlite`.")


# -- trying -----------------------------------------------------------------------------------------------------


def test_test_connects_and_shows_the_tree_and_the_first_message(home: Home) -> None:
    home.documents(3)
    before = home.everything()
    ran = home.pipeline("test", "shop.py")
    assert (ran.code, ran.err) == (0, "")
    assert "└ report: python(with_total) → sqlite(report.db)" in ran.out
    assert "ok   report's transforms: make of it" in ran.out
    assert 'first message: orders {"_id":0' in ran.out
    assert set(home.everything()) - set(before) <= {one for one in home.everything() if "__pycache__" in one}


PRICED = """
from headwater.pipeline import Pipeline, python
from headwater.pipeline.adaptors import file


def with_shipping(message):
    message.data["total"] = message.data["price"] + message.data["shipping"]
    return message


p = Pipeline("priced")
rows = p.source("prices", file("prices.csv"OPTIONS))
rows.transform(python(with_shipping)).save("out", file("out.jsonl"))
"""


@pytest.mark.parametrize(
    ("options", "totals", "kind"),
    [
        ("", ["1.75", "1.70", "1.5", "12.50"], "decimal or integer"),
        (', decimals="float"', ["1.75", "1.7", "1.5", "12.5"], "float or integer"),
    ],
)
def test_numbers_of_text_are_of_one_type_whatever_their_digits(home: Home, options: str, totals: list[str], kind: str) -> None:
    home.write("prices.csv", "_id,price,shipping\n1,1.25,0.5\n2,1.20,0.50\n3,1,0.5\n4,12.00,0.50\n")
    home.write("priced.py", PRICED.replace("OPTIONS", options))
    ran = home.pipeline("test", "priced.py")
    assert (ran.code, ran.err) == (0, "")
    assert f"types of prices in 4 documents: _id integer, price {kind}, shipping {kind.split()[0]}" in ran.out
    assert "warn" not in ran.out
    ran = home.pipeline("run", "priced.py")
    assert ran.code == 0, ran.err
    lines = (home.home / "out.jsonl").read_text().splitlines()
    assert [line.partition('"total":')[2].rstrip("}") for line in lines] == totals
    assert "verify: equal" in home.pipeline("verify", "priced", "out", "--file", "priced.py").out


def test_test_warns_of_a_field_with_several_types(home: Home) -> None:
    home.documents(30, at5={"price": "N/A"}, at6={"price": "N/A"})
    ran = home.pipeline("test", "shop.py")
    assert ran.code == 0
    assert 'warn orders: price: integer in 28 documents, text in 2: "N/A"' in ran.out
    assert home.pipeline("test", "shop.py", "--json").json["warnings"] == ['orders: price: integer in 28 documents, text in 2: "N/A"']


def test_a_small_long_is_a_plain_number_in_json_answers(home: Home) -> None:
    home.write("in.jsonl", '{"_id":{"$numberLong":"5"},"n":[{"$numberLong":"7"}]}\n')
    text = 'Pipeline("longs")\np.source("in", file("in.jsonl")).save("out", file("out.jsonl"))\n'
    home.write("longs.py", f"from headwater.pipeline import Pipeline\nfrom headwater.pipeline.adaptors import file\n\np = {text}")
    document = {"_id": 5, "n": [7]}
    ran = home.pipeline("test", "longs.py", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["message"]["data"] == document
    assert home.pipeline("run", "longs.py").code == 0
    ran = home.pipeline("edit", "longs", "0", "--set", "m=1", "--why", "x", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["data"] == document | {"m": 1}
    ran = home.pipeline("xlog", "longs", "show", "0..3", "--json")
    assert ran.code == 0, ran.err
    shown = json.loads(ran.out.splitlines()[0])
    assert (shown["data"], shown["copies"][0]["data"]) == (document, document | {"m": 1})


def test_test_says_what_cannot_be_reached(home: Home) -> None:
    ran = home.pipeline("test", "shop.py")
    assert ran.code == 3
    assert "FAIL orders: There is no file orders.jsonl to read." in ran.out
    assert "a relative one begins where the pipeline is run" in ran.err
    ran = home.pipeline("test", "shop.py", "--json")
    assert ran.code == 3
    assert [one["ok"] for one in ran.json["checks"]] == [False, True, True]


def test_test_shows_a_transform_that_fails(home: Home) -> None:
    home.documents(3, at0={"price": None})
    ran = home.pipeline("test", "shop.py")
    assert ran.code == 5
    assert "FAIL report's transforms: Transform python(with_total) raised TypeError" in ran.out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('file("orders.jsonl", formt="csv")', "Did you mean format?"),
        ('file("orders.jsonl", format="xml")', "Use one of auto, jsonl, csv, parquet."),
        ("file()", "missing a required argument: 'uri'"),
        ('file("orders.jsonl"), namespace="("', "is no regular expression"),
        ('file("orders.jsonl"), namespce="x"', "Did you mean namespace?"),
        ("7", "cannot be read from"),
    ],
)
def test_a_mistake_in_the_file_is_exit_2_with_what_was_meant(home: Home, text: str, says: str) -> None:
    home.write("shop.py", SHOP.replace('file("orders.jsonl")', text))
    ran = home.pipeline("test", "shop.py")
    assert ran.code == 2
    assert says in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("x = 1", 2, "defines no Pipeline"),
        ("x = ", 2, "SyntaxError"),
        ('\nraise RuntimeError("no")', 2, "shop.py cannot be run: RuntimeError: no (line 2)."),
        ("raise SystemExit(4)", 2, "shop.py cannot be run: SystemExit: 4 (line 1)."),
        ("import nothing_of_this_name", 2, "ModuleNotFoundError"),
        (SHOP + '\nq = Pipeline("other")', 2, "defines several pipelines: shop, other"),
        (SHOP.split("rows.save")[0], 2, "has no sink"),
        ('from headwater.pipeline import Pipeline\np = Pipeline("a b")', 2, "is no name for a pipeline"),
    ],
)
def test_a_file_that_holds_no_pipeline_says_why(home: Home, text: str, code: int, says: str) -> None:
    home.write("shop.py", text)
    ran = home.pipeline("run", "shop.py")
    assert ran.code == code
    assert says in ran.err
    assert not home.data.exists()


def test_one_of_several_pipelines_is_named(home: Home) -> None:
    home.documents(2)
    home.write("shop.py", SHOP + '\nq = Pipeline("other")\nq.source("o", file("orders.jsonl")).save("copy", file("copy.jsonl"))\n')
    assert home.pipeline("run", "shop.py:other").code == 0
    assert home.ids("copy.jsonl") == [0, 1]
    assert [one["pipeline"] for one in home.pipeline("list", "--json").json] == ["other"]
    assert home.pipeline("run", "shop.py:nobody").code == 2


# -- running ----------------------------------------------------------------------------------------------------


def test_a_run_copies_everything_and_the_next_one_reads_nothing(home: Home) -> None:
    home.documents(100)
    ran = home.pipeline("run", "shop.py")
    assert (ran.code, ran.out) == (0, "")
    assert "archive: 100 written, at 100 of 100" in ran.err
    assert "Done; 100 read." in ran.err
    assert home.ids("archive") == list(range(100))
    assert home.rows("select count(*), sum(total) from orders") == [(100, sum(2 * (n % 7) for n in range(100)))]
    ran = home.pipeline("run", "shop.py")
    assert ran.code == 0
    assert "report: 0 written, at 100 of 100" in ran.err
    assert "Done; 0 read." in ran.err
    assert home.positions() == {"archive": 100, "report": 100}


def test_again_reads_the_source_from_its_beginning(home: Home) -> None:
    home.documents(3)
    assert home.pipeline("run", "shop.py").code == 0
    ran = home.pipeline("run", "shop.py", "--again")
    assert ran.code == 0
    assert "Done; 3 read." in ran.err
    assert home.ids("archive") == [0, 1, 2, 0, 1, 2]
    assert home.rows("select count(*) from orders") == [(3,)]


def test_json_lines_and_an_events_file_tell_the_same(home: Home) -> None:
    home.documents(10)
    ran = home.pipeline("run", "shop.py", "--json", "--events", "events.jsonl")
    assert (ran.code, ran.err) == (0, "")
    kinds = [one["kind"] for one in ran.lines]
    assert (kinds[0], kinds[-1]) == ("boot", "exit")
    assert {one["path"] for one in ran.lines if one["kind"] == "metrics"} == {"orders", "orders/archive", "orders/report"}
    assert ran.lines[-1]["details"] == {"state": "done", "read": 10}
    assert [json.loads(line) for line in (home.home / "events.jsonl").read_text().splitlines()] == ran.lines


def test_an_events_file_in_a_folder_that_is_not_there_is_told_before_anything_is_read(home: Home) -> None:
    home.documents(10)
    ran = home.pipeline("run", "shop.py", "--events", "nowhere/events.jsonl")
    assert ran.code == 5
    assert not home.data.exists()


def test_a_source_that_is_not_there_is_told_and_can_come_later(home: Home) -> None:
    ran = home.pipeline("run", "shop.py")
    assert ran.code == 3
    assert f"There is no file {home.home}/orders.jsonl to read." in ran.err
    home.documents(4)
    assert home.pipeline("run", "shop.py").code == 0
    assert home.ids("archive") == [0, 1, 2, 3]


def test_a_sink_that_cannot_be_opened_is_told_while_it_is_waited_for(home: Home) -> None:
    home.documents(3)
    home.write("shop.py", SHOP.replace("report.db", "later/report.db"))
    running = home.start("pipeline", "run", "shop.py")
    assert running.stderr is not None
    told = running.stderr.readline()
    assert told.startswith(f"report unreachable: {home.home}/later/report.db cannot be opened"), told
    (home.home / "later").mkdir()
    assert ended(running).code == 0
    assert home.rows("select count(*) from orders", "later/report.db") == [(3,)]


def test_a_value_of_the_environment_is_used_and_never_shown(home: Home) -> None:
    home.documents(4)
    home.write("shop.py", SHOP.replace('file("orders.jsonl")', 'file("${ORDERS}")'))
    ran = home.pipeline("test", "shop.py")
    assert ran.code == 2
    assert "The environment has no ORDERS." in ran.out
    ran = home.pipeline("test", "shop.py", ORDERS="orders.jsonl")
    assert ran.code == 0
    assert "orders: file(${ORDERS})" in ran.out
    ran = home.pipeline("run", "shop.py", "--json", ORDERS="orders.jsonl")
    assert ran.code == 0
    assert ran.lines[0]["details"]["source"] == "file(${ORDERS})"


def test_a_log_of_its_own_is_found_from_the_data_directory(home: Home) -> None:
    home.documents(4, at2={"price": None})
    home.write("shop.py", SHOP.replace('Pipeline("shop")', 'Pipeline("shop", xlog_dir="own")'))
    assert home.pipeline("run", "shop.py").code == 9
    assert not (home.data / "log").exists()
    assert home.pipeline("xlog", "shop", "current", "--data", "own").out == "4\n"
    assert home.pipeline("xlog", "shop", "current").out == "4\n"
    [listed] = home.pipeline("list", "--json").json
    assert (listed["pipeline"], listed["state"], listed["log_dir"]) == ("shop", "stopped at report", str(home.home / "own"))
    assert home.pipeline("edit", "shop", "2", "--set", "price=1", "--why", "left out").code == 0
    assert home.pipeline("step", "shop", "report", "--count", "9").code == 0
    assert home.pipeline("verify", "shop", "report").code == 0
    (home.home / "own").rename(home.home / "moved")
    ran = home.pipeline("list")
    assert (ran.code, "lost" in ran.out, f"was in {home.home / 'own'}" in ran.err) == (0, True, True)
    ran = home.pipeline("status", "shop")
    assert (ran.code, "which is not there" in ran.err) == (3, True)
    assert home.pipeline("status", "shop", "--data", "moved").code == 0
    home.write("shop.py", SHOP)
    assert home.pipeline("run", "shop.py").code == 4  # the targets belong to the other log
    # From now on in the data directory, and read anew.
    assert home.pipeline("run", "shop.py", "--take-over", "archive", "--take-over", "report").code == 9
    assert [one["log_dir"] for one in home.pipeline("list", "--json").json] == [""]


def test_chained_sinks_get_what_the_one_above_has_taken(home: Home) -> None:
    home.documents(50, at20={"price": None})
    home.write(
        "shop.py",
        SHOP.replace('sqlite("report.db", table="orders"))', 'sqlite("report.db", table="orders")).save("after", file("after.jsonl"))'),
    )
    ran = home.pipeline("run", "shop.py")
    assert ran.code == 9
    assert home.ids("after.jsonl") == list(range(20))
    assert home.positions() == {"archive": 50, "report": 19, "after": 19}
    assert home.pipeline("edit", "shop", "20", "--set", "price=1", "--why", "free").code == 0
    assert home.pipeline("run", "shop.py").code == 0
    assert home.ids("after.jsonl") == list(range(50))
    assert json.loads((home.home / "after.jsonl").read_text().splitlines()[21]) == {
        "_id": 21, "item": "pen", "price": 2, "qty": 0, "total": 0,
    }  # fmt: skip


def test_stop_all_ends_the_run_at_the_first_error(home: Home) -> None:
    home.documents(50, at20={"price": None})
    home.write("shop.py", SHOP.replace('Pipeline("shop")', 'Pipeline("shop", on_error="stop_all")'))
    ran = home.pipeline("run", "shop.py")
    assert ran.code == 9
    assert home.positions()["report"] == 19


@pytest.mark.spark
def test_many_messages_go_through_spark(home: Home) -> None:
    home.documents(20_000)
    ran = home.pipeline("run", "shop.py", HEADWATER_SPARK__START="eager")
    assert ran.code == 0, ran.err
    assert sorted(home.ids("archive")) == list(range(20_000))
    assert home.rows("select count(*), count(distinct _id) from orders") == [(20_000, 20_000)]
    assert len(list((home.home / "archive").glob("part-*"))) > 1
    for sink in ("archive", "report"):
        assert home.pipeline("verify", "shop", sink).code == 0


@pytest.mark.spark
@pytest.mark.parametrize("repeated_by", ["source", "transform"])
def test_of_a_copy_whose_ids_repeat_the_last_document_of_each_stays(home: Home, repeated_by: str) -> None:
    """The sink is behind when Spark comes: a range of the copy is then delivered by several tasks at once."""
    ids = [number % 3000 if repeated_by == "source" else number for number in range(30_000)]
    lines = [f'{{"_id": {id}, "price": 1, "qty": 1, "round": {number // 3000}}}\n' for number, id in enumerate(ids)]
    home.write("orders.jsonl", "".join(lines))
    shop = SHOP.replace('Pipeline("shop")', 'Pipeline("shop", slices=1)')
    if repeated_by == "transform":
        changing = '    message.data["_id"] %= 3000\n    return message\n'
        shop = SHOP.replace("    return message\n", changing).replace("keeps_id=True", "keeps_id=False")
    home.write("shop.py", shop)
    ran = home.pipeline("run", "shop.py", HEADWATER_SPARK__START="eager")
    assert ran.code == 0, ran.err
    assert home.rows("select count(*), min(round), max(round) from orders") == [(3000, 9, 9)]
