"""Looking changes nothing; what is not there is told with an exit code; what a source cannot read has its line's number."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import msgspec
import pytest
from forked_program import ForkedProgram
from pipeline_home import SHOP, Home

from headwater.core.clock import SystemClock
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.state import Failure, SinkState


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, forked_program: ForkedProgram) -> Home:
    """A pipeline that stands at message 14. Nobody here changes it."""
    made = Home(tmp_path_factory.mktemp("shop"), forked_program)
    made.write("shop.py", SHOP)
    made.documents(16, at14={"price": None})
    for name, text in (("cut.json", '{"_id": '), ("list.json", "[1]"), ("empty.json", "\n")):
        made.write(name, text)
    assert made.pipeline("run", "shop.py").code == 9
    return made


LOOKS = [
    ["list"],
    ["status", "shop"],
    ["xlog", "shop", "oldest"],
    ["xlog", "shop", "current"],
    ["xlog", "shop", "show", "0..20"],
    ["offset", "shop", "list"],
    ["offset", "shop", "show", "report"],
    ["dead", "shop", "list"],
    ["audit", "shop"],
    ["verify", "shop", "report"],
    ["verify", "shop", "archive"],
    ["about"],
    ["about", "file"],
]
DRY = [
    ["offset", "shop", "mark", "report", "3", "--why", "x"],
    ["ack", "shop", "report", "14", "--why", "x"],
    ["edit", "shop", "14", "--set", "price=1", "--why", "x"],
    ["step", "shop", "report"],
    ["replay", "shop", "report", "0..3"],
    ["compact", "shop"],
]
ERRORS = [
    (["status", "shpo"], 3, "No pipeline named shpo has run here."),
    (["offset", "shop", "show", "reprot"], 3, "has no sink reprot"),
    (["offset", "shop", "mark", "report", "99", "--why", "x"], 5, "Offset 99 is not in the log, which holds 0 to 16."),
    (["offset", "shop", "delete", "report", "--why", "x", "--dry-run"], 4, "The last run of shop has the sink report"),
    (["offset", "shop", "mark", "report", "99"], 5, "needs a reason"),
    (["offset", "shop", "mark", "report"], 2, "Which offset?"),
    (["offset", "shop", "mark"], 2, "Which sink?"),
    (["offset", "shop", "forget"], 2, "is not one of 'list', 'show', 'mark', 'delete'"),
    (["offset", "shop", "list", "report"], 2, "offset list takes no 'report'"),
    (["offset", "shop", "show", "report", "3"], 2, "offset show takes no '3'"),
    (["offset", "shop", "mark", "report", "x", "--why", "x"], 2, "'x' is no offset"),
    (["offset", "shop", "mark", "report", "-2", "--why", "x"], 5, "Offset -2 is not in the log"),
    (["xlog", "shop", "show"], 2, "Which messages?"),
    (["xlog", "shop", "show", "99"], 5, "Offset 99 is not in the log"),
    (["xlog", "shop", "show", "9..3"], 5, "the wrong way round"),
    (["xlog", "shop", "show", "x"], 5, "is no range of messages"),
    (["xlog", "shop", "show", "-1"], 5, "'-1' is no range of messages"),
    (["xlog", "shop", "oldest", "3"], 2, "xlog oldest takes no '3'"),
    (["xlog", "shop", "newest"], 2, "is not one of 'oldest', 'current', 'show'"),
    (["xlog", "shop", "show", "3", "--namespace", "("], 2, "is no regular expression"),
    (["ack", "shop", "reprot", "14", "--why", "x"], 3, "has no sink reprot"),
    (["ack", "shop", "report", "99", "--why", "x"], 5, "Offset 99 is not in the log"),
    (["ack", "shop", "report", "3", "--why", "x"], 4, "has taken message 3 already"),
    (["edit", "shop", "14", "--why", "x"], 2, "What is to be corrected?"),
    (["edit", "shop", "14", "--set", "price", "--why", "x"], 2, "sets nothing"),
    (["edit", "shop", "14", "--set", "item=ink", "--why", "x"], 2, "is no JSON"),
    (["edit", "shop", "14", "--doc", "nowhere.json", "--why", "x"], 5, "cannot be read"),
    (["edit", "shop", "14", "--doc", "cut.json", "--why", "x"], 5, "cut.json holds no JSON object: "),
    (["edit", "shop", "14", "--doc", "list.json", "--why", "x"], 5, "list.json holds no JSON object: "),
    (["edit", "shop", "14", "--doc", "empty.json", "--why", "x"], 5, "empty.json is empty"),
    (["edit", "shop", "14", "--set", "item.x=1", "--why", "x"], 5, "headwater pipeline xlog shop show 14"),
    (["edit", "shop", "16", "--set", "item=1", "--why", "x"], 5, "is never delivered"),
    (["edit", "shop", "14", "--undo", "--why", "x"], 3, "has no corrected copy"),
    (["edit", "shop", "x", "--set", "price=1", "--why", "x"], 2, "'x' is no offset"),
    (["edit", "shop", "99", "--set", "price=1", "--why", "x"], 5, "Offset 99 is not in the log"),
    (["step", "shop", "reprot"], 3, "has no sink reprot"),
    (["replay", "shop", "report", "3..99"], 5, "does not lie in the log, which holds 0 to 16"),
    (["replay", "shop", "report", "9..3"], 5, "the wrong way round"),
    (["dead", "shop", "show", "3"], 3, "Message 3 is not put aside."),
    (["dead", "shop", "show"], 2, "Which message?"),
    (["dead", "shop", "list", "--sink", "reprot"], 3, "has no sink reprot"),
    (["dead", "shop", "list", "3"], 2, "dead list takes no '3'"),
    (["dead", "shop", "bury", "3"], 2, "is not one of 'list', 'show', 'retry', 'drop'"),
    (["stop", "shop"], 4, "does not run"),
    (["run", "nowhere.py"], 3, "There is no file nowhere.py."),
    (["about", "postgers"], 3, "Did you mean postgres?"),
    (["init", "csv", "parquet"], 3, "Did you mean file?"),
    (["verify", "shop", "report", "--file", "nowhere.py"], 3, "There is no file nowhere.py."),
]


def kept(home: Home) -> dict[str, tuple[int, int]]:
    """Every file, without what Python and SQLite make for themselves: whoever reads a database in WAL mode makes its -shm and -wal."""
    return {name: state for name, state in home.everything().items() if "__pycache__" not in name and not name.endswith(("-shm", "-wal"))}


def test_looking_changes_no_file_and_makes_none(shop: Home) -> None:
    before = kept(shop)
    for words in LOOKS:
        ran = shop.pipeline(*words)
        assert ran.code == 0, f"{words}: {ran.err}"
        assert shop.pipeline(*words, "--json").code == 0
        assert kept(shop) == before, words


def test_a_dry_run_changes_no_file_and_makes_none(shop: Home) -> None:
    before = kept(shop)
    for words in DRY:
        ran = shop.pipeline(*words, "--dry-run", "--json")
        assert (ran.code, ran.err) == (0, ""), words
        assert kept(shop) == before, words


def test_what_is_not_there_is_told_with_its_exit_code_and_changes_nothing(shop: Home) -> None:
    before = kept(shop)
    for words, code, says in ERRORS:
        ran = shop.pipeline(*words)
        assert (ran.code, says in ran.err) == (code, True), f"{words} ended with {ran.code}: {ran.err}"
        assert "Traceback" not in ran.err
        assert len(ran.err.splitlines()) > 1, f"{words} says no next step"
    assert kept(shop) == before


def test_a_directory_that_is_mounted_read_only_can_be_looked_at_and_not_changed(shop: Home) -> None:
    data, before = shop.home / "data", kept(shop)
    mounting = f"mount --bind {data} {data} && mount -o remount,bind,ro {data}"
    if (done := subprocess.run(mounting, shell=True, capture_output=True, text=True)).returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        for words in LOOKS[:3]:
            assert shop.pipeline(*words).code == 0, words
        for words in (["offset", "shop", "mark", "report", "3"], ["ack", "shop", "report", "14"]):
            ran = shop.pipeline(*words, "--why", "x")
            assert ran.code == 6, ran.err
            assert "cannot be written by this process (Read-only file system)" in ran.err
            assert "read_only=" not in ran.err
    finally:
        subprocess.run(["umount", str(data)], check=True)
    assert kept(shop) == before


def test_a_sink_that_gave_up_for_another_reason_is_no_message_to_correct(tmp_path: Path, forked_program: ForkedProgram) -> None:
    home = Home(tmp_path, forked_program)
    home.write("shop.py", SHOP)
    home.documents(3)
    assert home.pipeline("run", "shop.py").code == 0
    gone = SinkState(position=1, failure=Failure(offset=2, error="unreachable", message="It does not answer.", of_message=False))
    with EmbeddedLog(home.data) as log:
        Control(log, "shop", SystemClock()).change(lambda state: [("sink/report", gone)])
    told = home.pipeline("status", "shop").out
    again = f"headwater pipeline run {tmp_path / 'shop.py'}"
    assert told.splitlines()[-1] == f"report has failed, but not at a message. Once the cause is mended: {again}"
    ran = home.pipeline("xlog", "shop", "show", "2")
    assert ("report stands here: It does not answer." in ran.out, ran.err) == (True, "")


def test_a_run_that_failed_at_its_source_says_why_and_what_to_do(tmp_path: Path, forked_program: ForkedProgram) -> None:
    home = Home(tmp_path, forked_program)
    home.write("shop.py", SHOP)
    ran = home.pipeline("run", "shop.py")
    assert ran.code != 0
    shown = home.pipeline("status", "shop").out
    assert "The run failed: " in shown
    assert "orders.jsonl" in shown
    assert f"Once the cause is mended: headwater pipeline run {tmp_path / 'shop.py'}" in shown
    assert home.pipeline("status", "shop", "--json").json["error"] in ran.err


def test_a_copy_that_is_read_half_shows_how_much_of_it_that_is(tmp_path: Path, forked_program: ForkedProgram) -> None:
    home = Home(tmp_path, forked_program)
    home.write("shop.py", SHOP)
    home.documents(3)
    assert home.pipeline("run", "shop.py").code == 0
    size = (home.home / "orders.jsonl").stat().st_size
    whole = {"total": size, "unit": "bytes", "estimate": False, "read": size, "percent": 100}
    assert home.pipeline("status", "shop", "--json").json["progress"] == whole
    assert home.pipeline("status", "shop").out.splitlines()[0].endswith("; source in phase complete")
    with EmbeddedLog(home.data) as log:
        control = Control(log, "shop", SystemClock())
        known = control.state.reader
        assert known is not None
        half = msgspec.structs.replace(known.reading, copied=False, finished=(), amount=0, positions={"0": 21}, amounts={"0": 21})
        control.change(lambda state: [("reading", half)])
    said = f"; source in phase copy: 21 B of {size} B, {2100 // size} %"
    assert home.pipeline("status", "shop").out.splitlines()[0].endswith(said)


def test_more_than_is_shown_is_told(shop: Home) -> None:
    ran = shop.pipeline("xlog", "shop", "show", "3..12", "--limit", "2")
    assert [line.split()[0] for line in ran.out.splitlines()] == ["3", "4"]
    assert ran.err == "There is more: headwater pipeline xlog shop show 5..12\n"
    assert shop.pipeline("xlog", "shop", "show", "15..99", "--limit", "2").err == ""


def test_what_is_empty_is_said(shop: Home) -> None:
    for words, says in (["audit"], "Nobody has changed anything of shop."), (["dead", "list"], "Nothing is put aside."):
        ran = shop.pipeline(words[0], "shop", *words[1:])
        assert (ran.code, ran.out, ran.err) == (0, "", f"{says}\n")


def test_looking_where_nothing_is_makes_nothing(tmp_path: Path, forked_program: ForkedProgram) -> None:
    home = Home(tmp_path, forked_program)
    for words in (["list"], ["status", "shop"], ["xlog", "shop", "current"], ["offset", "shop", "list"], ["audit", "shop"]):
        assert home.pipeline(*words).code == 3
    assert list(tmp_path.iterdir()) == []
    assert home("log", "create", "other").code == 0
    before = home.everything()
    ran = home.pipeline("list", "--json")
    assert (ran.code, ran.json) == (0, [])
    assert home.pipeline("offset", "shop", "mark", "report", "3", "--why", "x").code == 3
    assert set(home.everything()) == set(before)


def test_a_line_that_is_no_json_is_a_poison_record_with_its_number(tmp_path: Path, forked_program: ForkedProgram) -> None:
    home = Home(tmp_path, forked_program)
    home.write("shop.py", SHOP)
    home.documents(5)
    lines = (tmp_path / "orders.jsonl").read_text().splitlines()
    lines[2:2] = ["", '{"_id": 2, "price": ']
    home.write("orders.jsonl", "\n".join(lines) + "\n")
    ran = home.pipeline("run", "shop.py")
    assert ran.code == 9
    assert "Line 4 is no JSON object" in ran.err
    assert "headwater pipeline edit shop 2 --doc FILE --why ..." in ran.err
    assert home.positions() == {"archive": 1, "report": 1}
    [shown] = home.pipeline("xlog", "shop", "show", "2", "--json").lines
    assert "Line 4" in shown["unreadable"]
    assert shown["data"] == '{"_id": 2, "price": '
    home.write("right.json", json.dumps({"_id": 9, "item": "ink", "price": 1, "qty": 1}))
    assert home.pipeline("edit", "shop", "2", "--doc", "right.json", "--why", "was cut off").code == 0
    assert home.pipeline("run", "shop.py").code == 0
    assert home.ids("archive") == [0, 1, 9, 2, 3, 4]


def test_a_row_of_csv_with_too_many_cells_is_a_poison_record_with_its_number(tmp_path: Path, forked_program: ForkedProgram) -> None:
    home = Home(tmp_path, forked_program)
    home.write("shop.py", SHOP.replace("orders.jsonl", "orders.csv"))
    home.write("orders.csv", '_id,item,price,qty\n1,"a\nb",2,3\n2,pen,1.10,4,5\n3,ink,2,1\n')
    ran = home.pipeline("run", "shop.py")
    assert ran.code == 9
    assert "Line 4 has 5 cells, its header 4." in ran.err
    assert home.pipeline("ack", "shop", "report", "1", "--why", "x").code == 0
    assert home.pipeline("ack", "shop", "archive", "1", "--why", "x").code == 0
    assert home.pipeline("run", "shop.py").code == 0
    assert home.rows("select _id, item, total from orders") == [(1, "a\nb", 6), (3, "ink", 2)]


def test_an_adaptor_of_another_package_is_found_by_its_entry_point(tmp_path: Path, forked_program: ForkedProgram) -> None:
    home = Home(tmp_path, forked_program)
    package = tmp_path / "site"
    (package / "pond-1.0.dist-info").mkdir(parents=True)
    (package / "pond-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: pond\nVersion: 1.0\n")
    (package / "pond-1.0.dist-info" / "entry_points.txt").write_text("[headwater.adaptors]\npond = pond:pond\n")
    (package / "pond.py").write_text(
        """
from headwater.pipeline.adaptor import About
from headwater.adaptors.file.adaptor import File
from headwater.pipeline.strict import strict


class Pond(File, frozen=True, kw_only=True):
    kind = "pond"
    about = About(summary="Water.", namespace="the pond", source="Copies.", sink="Fills it.", sample='pond("deep")')


@strict
def pond(uri: str) -> Pond:
    return Pond(uri=uri, format="jsonl")
"""
    )
    assert "pond" in [one["name"] for one in home.pipeline("about", "--json", PYTHONPATH=str(package)).json]
    home.documents(3)
    text = SHOP.replace('file("orders.jsonl")', 'pond("orders.jsonl")').replace("import file", "import file, pond")
    home.write("shop.py", text)
    assert home.pipeline("run", "shop.py", PYTHONPATH=str(package)).code == 0
    assert home.ids("archive") == [0, 1, 2]


WIDER = """
from headwater.pipeline import DeadLetter, Pipeline
from headwater.pipeline.adaptors import file, sqlite

p = Pipeline("wider")
p.source("in", file("in.jsonl")).save("db", sqlite("out.db"), on_error=DeadLetter())
"""


def test_a_column_that_was_made_wider_is_told(tmp_path: Path, forked_program: ForkedProgram) -> None:
    home = Home(tmp_path, forked_program)
    home.write("wider.py", WIDER)
    home.write("in.jsonl", '{"_id": 1, "total": 1}\n')
    assert home.pipeline("run", "wider.py").code == 0
    home.write(
        "in.jsonl", '{"_id": 1, "total": 1}\n{"_id": 2, "total": 12.50}\n{"_id": 3, "note": "x"}\n{"_id": 4, "total": "no number"}\n'
    )
    assert home.pipeline("run", "wider.py", "--again").code == 0
    said = home.pipeline("status", "wider").out
    assert "db: column in.total was made wider for message 3: INTEGER became NUMERIC" in said
    assert "1 message is put aside: headwater pipeline dead wider list" in said
    [sink] = json.loads(home.pipeline("status", "wider", "--json").out)["sinks"]
    assert [(one["column"], one["before"], one["after"], one["offset"]) for one in sink["columns"]] == [
        ("total", "INTEGER", "NUMERIC", 3),
        ("note", "", "TEXT", 4),
    ]
    shown = json.loads(home.pipeline("offset", "wider", "show", "db", "--json").out)
    assert shown["tables"] == {"in": {"_id": "int", "total": "decimal", "note": "text"}}
    assert home.pipeline("verify", "wider", "db").code == 0
