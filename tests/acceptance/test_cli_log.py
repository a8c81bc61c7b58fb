"""`headwater log …`, driven as a program: what works, and each bad input with its exit code."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from forked_program import ForkedProgram
from program import Program

from headwater.log.address import LogAddress
from headwater.log.opening import open_log
from headwater.log.record import Record, TopicSettings


@pytest.fixture
def headwater(tmp_path: Path, forked_program: ForkedProgram) -> Program:
    return Program(tmp_path, forked_program)


def fill(data: Path, topic: str, records: list[Record], *, partition: int = 0, at_once: bool = True, **create: object) -> None:
    with open_log(LogAddress(path=str(data))) as log:
        if create:
            log.create_topic(topic, **create)  # type: ignore[arg-type]
        for batch in [records] if at_once else [[record] for record in records]:
            log.append(topic, partition, batch)


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory, forked_program: ForkedProgram) -> Program:
    """A topic `bank` of two partitions: 0 holds offsets 2 to 9 of ten records, 1 is empty; and a topic `one`. Tests only read it."""
    program = Program(tmp_path_factory.mktemp("bank"), forked_program)
    records = [Record(key=b"k%d" % (n % 2), value=b'{"n": %d}' % n, timestamp=1_000_000 + n, headers=(("h", b"x"),)) for n in range(10)]
    fill(program.data, "bank", records, partitions=2)
    fill(program.data, "one", [Record(key=b"\xff", value=b"\xfe\x1b[31m", timestamp=0)], partitions=1)
    with open_log(LogAddress(path=str(program.data))) as log:
        log.delete_before("bank", 0, 2)
    return program


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# -- topics -----------------------------------------------------------------------------------------------------


def test_from_nothing_to_a_record_and_away(headwater: Program) -> None:
    made = headwater("log", "create", "bank", "--partitions", "2", "--segment", "1MiB", "--period", "1h", "--max-record", "1KiB", "--json")
    assert made.code == 0, made.err
    assert (made.json["name"], made.json["partitions"]) == ("bank", 2)
    assert made.json["settings"] == {"segment": "1MiB", "period": "1h", "max_record": "1KiB", "disposal": "delete"}
    again = headwater("log", "create", "bank", "--partitions", "2", "--segment", "1MiB", "--period", "1h", "--max-record", "1KiB")
    assert again.code == 0
    assert "bank" in again.out
    listed = headwater("log", "topics")
    assert listed.code == 0
    assert listed.out.splitlines()[1].split() == ["bank", "2", "1MiB", "1h", "1KiB"]
    assert headwater("log", "topics", "--json").json == [made.json]

    asked = headwater("log", "delete-topic", "bank")
    assert asked.code == 5
    assert "--yes" in asked.err
    tried = headwater("log", "delete-topic", "bank", "--dry-run")
    assert tried.code == 0
    assert "would be deleted" in tried.out
    assert len(headwater("log", "topics", "--json").json) == 1
    gone = headwater("log", "delete-topic", "bank", "--yes", "--json")
    assert (gone.code, gone.json["partitions"]) == (0, 2)
    assert headwater("log", "topics", "--json").json == []
    assert "no topics" in headwater("log", "topics").err


def test_topics_take_the_configured_settings(headwater: Program) -> None:
    (headwater.home / "headwater.toml").write_text('data = "elsewhere"\n[log]\nsegment = "2MiB"\nmax_record = "2KiB"\nperiod = "month"\n')
    made = headwater("log", "create", "bank", "--json", HEADWATER_LOG__MAX_RECORD="3KiB", HEADWATER_LOG__DISPOSAL="reset")
    assert made.json["settings"] == {"segment": "2MiB", "period": "month", "max_record": "3KiB", "disposal": "reset"}
    assert (headwater.home / "elsewhere" / "log" / "bank").is_dir()


def test_a_topic_with_a_period_and_a_disposal_works_as_any(headwater: Program) -> None:
    words = ("log", "create", "work", "--segment", "200B", "--period", "day", "--disposal", "secure-reset")
    made = headwater(*words, "--json")
    assert made.json["settings"]["period"] == "day"
    assert headwater(*words).code == 0
    assert headwater(*words[:-1], "delete").code == 4
    listed = headwater("log", "topics").out.splitlines()
    assert (listed[0].split()[-1], listed[1].split()) == ("disposal", ["work", "1", "200B", "day", "16MiB", "secure-reset"])
    for number in range(12):
        assert headwater("log", "append", "work", f"value-{number}", "--key", f"{number % 2}").code == 0
    assert headwater("log", "delete-before", "work", "9", "--yes").code == 0
    shown = headwater("log", "stats", "work", "--json").json[0]
    assert (shown["start"], shown["drained"], shown["spares"]) == (9, 0, 2)
    header, row = (line.split() for line in headwater("log", "stats", "work").out.splitlines())
    assert (header[-2], row[-2]) == ("spares", "2")
    assert headwater("log", "check", "work").code == 0
    assert [record["offset"] for record in headwater("log", "show", "work", "--json").lines] == list(range(9, 12))
    assert headwater("log", "compact", "work").code == 0
    assert headwater("log", "repair", "work", "0", "--cut").code == 0
    assert headwater("log", "append", "work", "more").code == 0
    folder = headwater.data / "log" / "work" / "0"
    assert not any(b"value-0" in path.read_bytes() for path in folder.iterdir())


def test_stats(bank: Program) -> None:
    shown = bank("log", "stats", "bank", "--json")
    assert shown.code == 0
    first, second = shown.json
    assert (first["topic"], first["partition"], first["start"], first["end"], first["segments"]) == ("bank", 0, 2, 10, 1)
    assert first["bytes"] > 0
    assert (first["cuts"], first["damage"]) == (0, "")
    assert (second["partition"], second["start"], second["end"]) == (1, 0, 0)
    table = bank("log", "stats")
    assert table.out.splitlines()[0].split() == ["topic", "partition", "start", "end", "segments", "bytes", "cuts", "damage"]
    assert len(table.out.splitlines()) == 4


def test_delete_before(headwater: Program) -> None:
    fill(headwater.data, "bank", [Record(key=None, value=b"x")] * 10, partitions=1)
    tried = headwater("log", "delete-before", "bank", "4", "--dry-run", "--json")
    assert tried.json == {"topic": "bank", "partition": 0, "start_before": 0, "start": 4, "end": 10, "dry_run": True}
    assert headwater("log", "delete-before", "bank", "4").code == 5
    assert headwater("log", "stats", "--json").json[0]["start"] == 0
    done = headwater("log", "delete-before", "bank", "4", "--yes")
    assert done.code == 0
    assert "begins at offset 4" in done.out
    again = headwater("log", "delete-before", "bank", "2", "--json")
    assert (again.code, again.json["start"]) == (0, 4)
    beyond = headwater("log", "delete-before", "bank", "11", "--yes", "--json")
    assert (beyond.code, beyond.problem["code"]) == (5, "bad-bounds")


# -- showing ----------------------------------------------------------------------------------------------------


def test_show_for_people(bank: Program) -> None:
    shown = bank("log", "show", "bank", "3..4", "--partition", "0")
    assert shown.code == 0
    head, *rows = [line.split() for line in shown.out.splitlines()]
    assert head == ["partition", "offset", "time", "key", "value", "more"]
    assert rows[0] == ["0", "3", "1970-01-01T00:16:40.003Z", "k1", '{"n":', "3}", "h=x"]
    assert len(rows) == 2
    assert shown.err == "2 records.\n"


def test_show_for_programs(bank: Program) -> None:
    shown = bank("log", "show", "bank", "8..", "--partition", "0", "--decode", "json", "--json")
    assert shown.code == 0
    assert [(one["partition"], one["offset"], one["key"], one["value"]) for one in shown.lines] == [
        (0, 8, "k0", {"n": 8}),
        (0, 9, "k1", {"n": 9}),
    ]
    assert shown.lines[0]["headers"] == [["h", "x"]]
    assert shown.err == ""


def test_show_by_key_and_limit(bank: Program) -> None:
    found = bank("log", "show", "bank", "--key", "k1", "--json").lines
    assert [one["offset"] for one in found] == [3, 5, 7, 9]
    limited = bank("log", "show", "bank", "--limit", "3")
    assert len(limited.out.splitlines()) == 4
    assert "There are more" in limited.err


def test_show_bytes_that_are_no_text(bank: Program) -> None:
    assert bank("log", "show", "one", "--decode", "hex", "--json").lines[0]["value"] == "fe1b5b33316d"
    assert bank("log", "show", "one", "--json").lines[0]["key"] == {"$binary": "/w=="}
    assert "\x1b" not in bank("log", "show", "one").out


def test_show_nothing(bank: Program) -> None:
    assert bank("log", "show", "bank", "--key", "nobody").code == 0
    assert bank("log", "show", "one", "--key", "\udcff", "--json").lines[0]["offset"] == 0, "bytes that are no text, as a shell gives them"
    assert bank("log", "show", "bank", "--key", "nobody", "--fail-empty").code == 10
    assert bank("log", "show", "bank", "--partition", "1", "--fail-empty", "--json") == (10, "", "")
    assert bank("log", "show", "bank", "--fail-empty", "--json").code == 0


def test_a_reader_that_has_had_enough_is_no_error(headwater: Program) -> None:
    fill(headwater.data, "bank", [Record(key=None, value=b"x" * 500)] * 2000, partitions=1)
    process = headwater.start("log", "show", "bank", "--limit", "2000", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(240) == 0


# -- bad input: its exit code, its code, and a hint, and nothing has changed ------------------------------------

BAD = [
    (["log", "show", "nobody"], 3, "unknown-topic"),
    (["log", "show", "bank", "--partition", "2"], 3, "unknown-partition"),
    (["log", "show", "bank", "--partition", "-1"], 3, "unknown-partition"),
    (["log", "show", "bank", "1", "-p", "0"], 3, "offset-gone"),
    (["log", "show", "bank", "10", "-p", "0"], 5, "bad-bounds"),
    (["log", "show", "bank", "99..100", "-p", "0"], 5, "bad-bounds"),
    (["log", "show", "bank", "5..3", "-p", "0"], 5, "bad-bounds"),
    (["log", "show", "bank", "five", "-p", "0"], 5, "bad-bounds"),
    (["log", "show", "bank", "5"], 5, "bad-input"),
    (["log", "show", "bank", "--decode", "xml"], 2, "usage"),
    (["log", "show", "bank", "--limit", "0"], 2, "usage"),
    (["log", "show"], 2, "usage"),
    (["log", "frobnicate"], 2, "usage"),
    (["log", "tail", "nobody"], 3, "unknown-topic"),
    (["log", "tail", "bank", "-p", "7"], 3, "unknown-partition"),
    (["log", "tail", "bank", "-p", "0", "--from", "0"], 3, "offset-gone"),
    (["log", "tail", "bank", "-p", "0", "--from", "11"], 5, "bad-bounds"),
    (["log", "tail", "bank", "--from", "3"], 5, "bad-input"),
    (["log", "create", "no/name"], 5, "bad-input"),
    (["log", "create", "x", "--partitions", "0"], 5, "bad-input"),
    (["log", "create", "x", "--segment", "16"], 5, "bad-input"),
    (["log", "create", "x", "--segment", "2GiB"], 5, "bad-input"),
    (["log", "create", "x", "--period", "1 fortnight"], 5, "bad-input"),
    (["log", "create", "x", "--period", "week"], 5, "bad-input"),
    (["log", "create", "x", "--disposal", "burn"], 5, "bad-input"),
    (["log", "create", "bank", "--partitions", "3"], 4, "already-exists"),
    (["log", "check", "nobody"], 3, "unknown-topic"),
    (["log", "check", "bank", "9"], 3, "unknown-partition"),
    (["log", "repair", "bank", "0"], 2, "usage"),
    (["log", "repair", "bank", "0", "--cut", "--rebuild"], 2, "usage"),
    (["log", "repair", "nobody", "0", "--rebuild"], 3, "unknown-topic"),
    (["log", "repair", "nobody", "0", "--cut"], 3, "unknown-topic"),
    (["log", "repair", "bank", "9", "--cut"], 3, "unknown-partition"),
    (["log", "compact", "nobody"], 3, "unknown-topic"),
    (["log", "compact", "bank", "--before", "3"], 5, "bad-input"),
    (["log", "import", "nowhere", "x"], 5, "bad-input"),
    (["log", "show", "bank", "", "-p", "0"], 5, "bad-bounds"),
    (["log", "stats", "nobody"], 3, "unknown-topic"),
    (["log", "delete-topic", "nobody", "--yes"], 3, "unknown-topic"),
    (["log", "delete-before", "bank", "3", "--yes"], 5, "bad-input"),
    (["log", "delete-before", "bank", "11", "-p", "0", "--yes"], 5, "bad-bounds"),
    (["log", "topics", "--config", "nowhere.toml"], 2, "bad-config"),
    (["log", "topics", "--data", "nowhere"], 3, "not-found"),
]


@pytest.mark.parametrize(("words", "exit_code", "code"), BAD, ids=[" ".join(words) for words, _, _ in BAD])
def test_bad_input(bank: Program, words: list[str], exit_code: int, code: str) -> None:
    before = files(bank.data)
    ran = bank(*words, "--json")
    assert (ran.code, ran.problem["code"], ran.problem["exitCode"]) == (exit_code, code, exit_code), ran
    assert ran.problem["detail"].endswith(".")
    assert ran.problem["hint"]
    assert ran.out == ""
    changed = {name for name, content in files(bank.data).items() if before.get(name) != content}
    assert not {name for name in changed if name.endswith((".log", "topic.json"))}


def test_a_directory_of_another_kind(headwater: Program) -> None:
    (headwater.home / "file").write_text("")
    assert headwater("log", "topics", "--data", "file").code == 5
    engine = headwater.data / "log" / "engine.json"
    engine.parent.mkdir(parents=True)
    engine.write_text(json.dumps({"engine": "embedded", "format": 99}))
    newer = headwater("log", "topics", "--json")
    assert (newer.code, newer.problem["code"]) == (5, "newer-format")
    engine.write_text(json.dumps({"engine": "kafka", "format": 1}))
    other = headwater("log", "topics", "--json")
    assert (other.code, other.problem["code"]) == (4, "wrong-engine")


def test_kafka_that_does_not_answer(headwater: Program) -> None:
    ran = headwater("log", "topics", "--json", HEADWATER_LOG__ENGINE="kafka", HEADWATER_KAFKA__BOOTSTRAP="127.0.0.1:1")
    assert (ran.code, ran.problem["code"]) == (6, "unreachable")


# -- care -------------------------------------------------------------------------------------------------------


def test_check_repair_and_go_on(headwater: Program) -> None:
    fill(headwater.data, "bank", [Record(key=b"k", value=b"%03d" % n * 20) for n in range(9)], at_once=False, partitions=1)
    checked = headwater("log", "check", "--json")
    assert checked.code == 0
    assert checked.json == [{"topic": "bank", "partition": 0, "segments": 1, "records": 9, "bytes": checked.json[0]["bytes"], "damage": []}]

    [segment] = headwater.data.glob("log/bank/0/*.log")
    raw = bytearray(segment.read_bytes())
    at = raw.index(b"004004")
    raw[at] ^= 1
    segment.write_bytes(raw)

    damaged = headwater("log", "check", "bank", "0", "--json")
    assert (damaged.code, damaged.problem["code"]) == (7, "damaged")
    assert str(segment) in damaged.problem["detail"]
    assert "offset 4" in damaged.problem["detail"]
    assert "headwater log repair bank 0 --cut" in damaged.problem["hint"]
    assert damaged.json[0]["damage"][0]["offset"] == 4
    people = headwater("log", "check")
    assert people.code == 7
    assert people.out.splitlines()[1].split()[-1] == "damaged"
    shown = headwater("log", "show", "bank", "4", "--json")
    assert (shown.code, shown.out) == (7, "")
    assert headwater("log", "show", "bank", "0..3", "--json").code == 0
    people = headwater("log", "show", "bank")
    assert people.code == 7
    assert [line.split()[1] for line in people.out.splitlines()[1:]] == ["0", "1", "2", "3"]

    before = files(headwater.data / "log" / "bank")
    tried = headwater("log", "repair", "bank", "0", "--cut", "--dry-run", "--json")
    assert tried.code == 0
    assert (tried.json["dry_run"], tried.json["lost"]) == (True, [[4, 5]])
    assert headwater("log", "repair", "bank", "0", "--cut").code == 5
    assert {name: raw for name, raw in files(headwater.data / "log" / "bank").items() if name.endswith(".log")} == {
        name: raw for name, raw in before.items() if name.endswith(".log")
    }

    repaired = headwater("log", "repair", "bank", "0", "--cut", "--yes")
    assert repaired.code == 0, repaired.err
    assert "offsets 4 to 4 are lost" in repaired.out
    [kept] = headwater.data.glob("log/bank/0/*.cut")
    assert kept.read_bytes() == bytes(raw)
    assert headwater("log", "check").code == 0
    assert [one["offset"] for one in headwater("log", "show", "bank", "--json").lines] == [0, 1, 2, 3, 5, 6, 7, 8]
    assert headwater("log", "stats", "--json").json[0]["cuts"] == 1
    fill(headwater.data, "bank", [Record(key=None, value=b"on")])
    assert headwater("log", "show", "bank", "9", "--json").lines[0]["value"] == "on"
    assert "not damaged" in headwater("log", "repair", "bank", "0", "--cut", "--yes").out


def test_a_broken_manifest_is_told_and_the_others_are_checked(headwater: Program) -> None:
    fill(headwater.data, "bank", [Record(key=b"k", value=b"v")], partitions=2)
    fill(headwater.data, "bank", [Record(key=b"k", value=b"v")], partition=1)
    (headwater.data / "log" / "bank" / "0" / "manifest").write_bytes(b"no manifest at all")
    checked = headwater("log", "check", "--json")
    assert (checked.code, checked.problem["code"]) == (7, "damaged")
    assert "manifest" in checked.problem["detail"]
    assert "copy" in checked.problem["hint"]
    assert [(one["records"], bool(one["damage"])) for one in checked.json] == [(0, True), (1, False)]
    first, second = headwater("log", "stats", "--json").json
    assert "manifest" in first["damage"]
    assert second["damage"] == ""
    tried = headwater("log", "delete-topic", "bank", "--dry-run")
    assert "damaged partitions 0" in tried.out, "a partition that cannot be counted is not an empty one"
    assert headwater("log", "delete-topic", "bank", "--yes").code == 0
    assert headwater("log", "topics", "--json").json == []


@pytest.mark.parametrize("harm", ["missing", "rotten"])
def test_a_lost_manifest_is_made_anew(headwater: Program, harm: str) -> None:
    records = [Record(key=b"k", value=b"%03d" % n * 20) for n in range(9)]
    fill(headwater.data, "bank", records, at_once=False, partitions=1, settings=TopicSettings(segment=300))
    before = headwater("log", "show", "bank", "--json").lines
    manifest = headwater.data / "log" / "bank" / "0" / "manifest"
    if harm == "missing":
        manifest.unlink()
    else:
        manifest.write_bytes(b"no manifest at all")
    for command in (["check"], ["show", "bank"], ["repair", "bank", "0", "--cut", "--yes"]):
        told = headwater("log", *command, "--json")
        assert (told.code, told.problem["code"]) == (7, "damaged"), command
        assert "headwater log repair bank 0 --rebuild" in told.problem["hint"]
    assert "manifest" in headwater("log", "stats", "--json").json[0]["damage"]

    tried = headwater("log", "repair", "bank", "0", "--rebuild", "--dry-run", "--json")
    assert tried.code == 0, tried.err
    assert (tried.json["dry_run"], tried.json["start"], tried.json["end"], tried.json["missing"]) == (True, 0, 9, [])
    assert headwater("log", "repair", "bank", "0", "--rebuild").code == 5  # nobody can be asked
    assert headwater("log", "check").code == 7
    done = headwater("log", "repair", "bank", "0", "--rebuild", "--yes")
    assert done.code == 0, done.err
    assert "for offsets 0 to 8" in done.out
    assert [path.read_bytes() for path in headwater.data.glob("log/bank/0/*.cut")] == ([b"no manifest at all"] if harm == "rotten" else [])
    assert headwater("log", "check").code == 0
    assert headwater("log", "show", "bank", "--json").lines == before
    fill(headwater.data, "bank", [Record(key=None, value=b"on")])
    assert headwater("log", "show", "bank", "9", "--json").lines[0]["value"] == "on"
    assert "has its manifest" in headwater("log", "repair", "bank", "0", "--rebuild", "--yes").out


def test_repair_waits_for_nobody(headwater: Program) -> None:
    fill(headwater.data, "bank", [Record(key=b"k", value=b"v")], partitions=1)
    with open_log(LogAddress(path=str(headwater.data))) as log:
        log.append("bank", 0, [Record(key=b"k", value=b"v")])
        ran = headwater("log", "repair", "bank", "0", "--cut", "--yes", "--json")
    assert (ran.code, ran.problem["code"]) == (4, "conflict")
    assert "in use" in ran.problem["detail"]


def test_compact(headwater: Program) -> None:
    records = [Record(key=b"k%d" % (n % 3), value=b"x" * 400) for n in range(30)]
    fill(headwater.data, "bank", records, at_once=False, partitions=1, settings=TopicSettings(segment=2000))
    done = headwater("log", "compact", "bank", "--json")
    assert done.code == 0
    [report] = done.json
    assert report["records_after"] < report["records_before"]
    shown = headwater("log", "show", "bank", "--json").lines
    assert {one["key"] for one in shown} == {"k0", "k1", "k2"}
    assert shown[-1]["offset"] == 29
    assert "records before" in headwater("log", "compact", "bank", "--before", "10").out
    assert headwater("log", "check").code == 0


def transporter_record(offset: int, seconds: int, key: bytes, value: bytes) -> bytes:
    return struct.pack(">QIQBI", offset, 8 + len(key) + len(value), seconds, 0, len(key)) + key + struct.pack(">I", len(value)) + value


def test_import_a_transporter_log(headwater: Program) -> None:
    old = headwater.home / "old"
    old.mkdir()
    (old / f"{5:020d}.log").write_bytes(b"".join(transporter_record(n, 1491252302, b"ns", b'{"n":%d}' % n) for n in (5, 6, 9)))
    done = headwater("log", "import", "old", "moved", "--json")
    assert done.code == 0, done.err
    assert (done.json["topic"], done.json["records"], done.json["start"], done.json["end"]) == ("moved", 3, 5, 10)
    shown = headwater("log", "show", "moved", "--decode", "json", "--json").lines
    assert [(one["offset"], one["value"]["n"], one["timestamp"]) for one in shown] == [
        (n, n, "2017-04-03T20:45:02.000Z") for n in (5, 6, 9)
    ]
    assert headwater("log", "check", "moved").code == 0
    again = headwater("log", "import", "old", "moved", "--json")
    assert (again.code, again.problem["code"]) == (4, "already-exists")
    assert "Imported 3 records from 1 files into other: offsets 5 to 9." in headwater("log", "import", "old", "other").out


def test_a_parts_topic_is_read_and_not_changed(headwater: Program) -> None:
    with open_log(LogAddress(path=str(headwater.data))) as log:
        log.create_topic("pipeline-shop", part="pipeline")
        log.append("pipeline-shop", 0, [Record(b"k", b"v")], part="pipeline")
    before = files(headwater.data)
    refused = {
        ("compact", "pipeline-shop"): "headwater pipeline compact shop",
        ("delete-before", "pipeline-shop", "1", "--yes"): "headwater pipeline compact shop",
        ("delete-before", "pipeline-shop", "1", "--dry-run"): "headwater pipeline compact shop",
        ("delete-topic", "pipeline-shop", "--yes"): "headwater pipeline remove shop",
        ("create", "pipeline-other"): "does not begin with pipeline-",
    }
    for words, instead in refused.items():
        ran = headwater("log", *words)
        assert ran.code == 4, words
        assert "part pipeline" in ran.err
        assert instead in " ".join(ran.err.split())
    assert files(headwater.data)["log/pipeline-shop/0/00000000000000000000.log"] == before["log/pipeline-shop/0/00000000000000000000.log"]
    assert headwater("log", "show", "pipeline-shop", "0").code == 0
    assert headwater("log", "topics").out.splitlines()[1].split()[-1] == "pipeline"
