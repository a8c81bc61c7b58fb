"""The command line, Python and a server on one directory at once: nobody is fenced by looking or by an ordinary command."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from forked_program import ForkedProgram
from program import Program

import headwater
from headwater.client.presence import serving
from headwater.log.address import LogAddress
from headwater.log.opening import open_log
from headwater.log.partitioner import partition_for
from headwater.log.record import Record
from headwater.server.spawned import SpawnedServer

READER, WRITER = "r" * 24, "w" * 24


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, forked_program: ForkedProgram) -> Program:
    return Program(tmp_path_factory.mktemp("shared"), forked_program)


@pytest.fixture(scope="module")
def server(home: Program) -> Iterator[SpawnedServer]:
    with SpawnedServer(home.data) as spawned:
        yield spawned


def test_nobody_is_fenced_by_looking_or_by_an_ordinary_command(home: Program, server: SpawnedServer) -> None:
    """An owner claims a partition in this process. Beside it a server, the command line and another door look and work."""
    with open_log(LogAddress(path=str(home.data))) as owner, headwater.open_blocking(home.data) as hw:
        assert hw.address == server.url
        owner.create_topic("owned")
        owner.create_topic("free", partitions=2)
        writer = owner.claim("owned", 0)
        for turn in range(2):
            writer.append([Record(b"k", b"%d" % turn)])
            assert home("log", "append", "free", "x", "--key", "k").code == 0
            for words in (
                ["log", "topics"],
                ["log", "stats"],
                ["log", "show", "owned"],
                ["log", "check"],
                ["log", "tail", "owned", "--from", "0", "--count", "1"],
                ["log", "delete-topic", "owned", "--dry-run"],
                ["log", "delete-before", "owned", "1", "--dry-run"],
                ["pipeline", "list"],
            ):
                ran = home(*words, "--json")
                assert (ran.code, ran.err) == (0, ""), words
            assert hw.log.append("free", 0, [Record(None, b"python")])
            assert [record.value for record in hw.log.read("owned", 0, 0)] == [b"%d" % n for n in range(turn + 1)]
        refused = home("log", "append", "owned", "mine", "--json")
        assert (refused.code, refused.problem["code"]) in [(4, "fenced"), (4, "not-owner")]
        assert list(writer.append([Record(b"k", b"still mine")])) == [2], "no command has taken it away"
        assert owner.epoch("owned", 0) == writer.epoch


def test_a_command_goes_through_the_server_of_its_directory(home: Program, server: SpawnedServer) -> None:
    """What the server counts shows that it was asked."""
    ran = home("log", "create", "asked", "--json")
    assert ran.code == 0, ran.err
    with headwater.open_blocking(server.url) as hw:
        assert "asked" in [topic.name for topic in hw.log.topics()]
    # The server has the partition open: a command beside it could not repair it.
    assert home("log", "append", "asked", "x").code == 0
    refused = home("log", "repair", "asked", "0", "--cut", "--yes", "--json")
    assert (refused.code, refused.problem["code"]) == (4, "conflict")


def test_another_folder_reaches_it_by_its_address(
    home: Program, server: SpawnedServer, tmp_path: Path, forked_program: ForkedProgram
) -> None:
    away = Program(tmp_path, forked_program)
    named = away("log", "topics", "--server", server.url, "--json")
    assert named.code == 0
    assert away("log", "topics", "--json", HEADWATER_SERVER=server.url).json == named.json
    assert away("log", "create", "far", "--partitions", "3", "--segment", "1MiB", "--server", server.url).code == 0
    lines = "".join(json.dumps({"key": f"k{n}", "value": {"n": n}}) + "\n" for n in range(6))
    placed = away("log", "append", "far", "--format", "ndjson", "--server", server.url, "--json", stdin=lines)
    assert placed.code == 0, placed.err
    assert [one["partition"] for one in placed.lines] == [partition_for(b"k%d" % n, 3) for n in range(6)]
    shown = away("log", "show", "far", "--key", "k4", "--decode", "json", "--server", server.url, "--json").lines
    assert [one["value"] for one in shown] == [{"n": 4}]
    assert not list(tmp_path.iterdir()), "nothing is made here"


def test_a_bad_line_is_named_and_what_was_appended_is_said(home: Program, server: SpawnedServer) -> None:
    assert home("log", "create", "lines").code == 0
    ran = home("log", "append", "lines", "--format", "ndjson", stdin='{"value": 1}\n\n{"value": 2}\n{"vlaue": 3}\n{"value": 4}\n')
    assert (ran.code, ran.out) == (5, "lines 0: 2 records appended, offsets 0 to 1\n")
    assert "Line 4: " in ran.err
    assert "2 records before it were appended." in ran.err
    large = home("log", "append", "lines", stdin="a\n" + "b" * (17 << 20) + "\nc\n")
    assert (large.code, large.out) == (5, "lines 0: 1 record appended, offset 2\n")
    assert "Line 2: " in large.err
    empty = home("log", "append", "lines")
    assert (empty.code, empty.out, empty.err) == (0, "", "Nothing was appended: there was no record to append.\n")


@pytest.mark.parametrize(
    ("words", "env", "code", "says"),
    [
        (["log", "topics", "--server", "htp://127.0.0.1:1"], {}, 2, "is no address of a server"),
        (["log", "topics", "--server", "127.0.0.1:8420"], {}, 2, "is no address of a server"),
        (["log", "topics", "--server", "http://127.0.0.1:1"], {}, 6, "No headwater server answers"),
        (["log", "topics", "--server", "http://127.0.0.1:1", "--data", "data"], {}, 2, "two places"),
        (["log", "topics"], {"HEADWATER_SERVER": "kafka://x"}, 2, "is no address of a server"),
        (["log", "topics"], {"HEADWATER_SERVER": ""}, 2, "is no address of a server"),
        (["log", "delete-topic", "bank", "--yes", "--server", ""], {}, 2, "--server is empty"),
        (["log", "delete-topic", "bank", "--yes", "--server="], {}, 2, "--server is empty"),
        (["log", "create", "t", "--data", ""], {}, 2, "--data is empty"),
        (["demo", "--data="], {}, 2, "--data is empty"),
        (["serve", "--config", ""], {}, 2, "--config is empty"),
        (["log", "topics", "--data", "kafka://x"], {}, 2, "is an address"),
        (["log", "check", "--server", "http://127.0.0.1:1"], {}, 2, "works on files of this machine"),
        (["pipeline", "run", "x.py", "--server", "http://127.0.0.1:1"], {}, 2, "works on files of this machine"),
        (["log", "repair", "t", "0", "--cut"], {"HEADWATER_SERVER": "http://127.0.0.1:1"}, 2, "HEADWATER_SERVER names a server"),
        (["pipeline", "step", "p", "s", "--file", "x.py", "--server", "http://127.0.0.1:1"], {}, 2, "takes no --file"),
        (["log", "append", "t", "v", "--format", "ndjson"], {}, 2, "its own key and value"),
        (["demo", "clean", "--data", "nowhere"], {}, 3, "in which the tour ran with --data"),
        (["pipeline", "xlog", "shop"], {}, 2, "Choose from: oldest, current, show."),
        (["pipeline", "run", "."], {}, 3, "is a folder, and a pipeline is a file"),
        (["serve", "--data", "/dev/null"], {}, 2, "is no directory"),
    ],
)
def test_places_that_are_none(home: Program, words: list[str], env: dict[str, str], code: int, says: str) -> None:
    ran = home(*words, **env)
    assert (ran.code, says in ran.err) == (code, True), ran
    assert len(ran.err.splitlines()) > 1


def test_a_token_may_do_what_its_role_may(tmp_path: Path, forked_program: ForkedProgram) -> None:
    home = Program(tmp_path, forked_program)
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"reader {READER}\nwriter {WRITER}\n")
    with open_log(LogAddress(path=str(home.data))) as log:
        log.create_topic("bank")
    with SpawnedServer(home.data, options=("--port", "0", "--token-file", str(tokens))):
        nobody = home("log", "topics")
        assert (nobody.code, "HEADWATER_TOKEN" in nobody.err) == (5, True)
        assert home("log", "topics", HEADWATER_TOKEN=READER).code == 0
        assert home("log", "append", "bank", "x", HEADWATER_TOKEN=READER).code == 5
        assert home("log", "append", "bank", "x", HEADWATER_TOKEN=WRITER).code == 0
        refused = home("log", "delete-topic", "bank", "--yes", "--json", HEADWATER_TOKEN=WRITER)
        assert (refused.code, refused.problem["code"]) == (5, "forbidden")


def test_a_server_that_dies_is_not_gone_through(tmp_path: Path, forked_program: ForkedProgram) -> None:
    """A tail is told when its server does not come back; the next command opens the directory itself."""
    home = Program(tmp_path, forked_program)
    with SpawnedServer(home.data) as server:
        assert home("log", "create", "bank").code == 0
        assert home("log", "append", "bank", "x").code == 0
        running = home.start("log", "tail", "bank", "--from", "0", "--json")
        assert running.stdout is not None
        assert json.loads(running.stdout.readline())["value"] == "x"
        server.kill()
        assert serving(home.data) is None
        assert home("log", "append", "bank", "y").out == "bank 0: 1 record appended, offset 1\n"
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=240)
    assert (running.returncode, out) == (0, ""), err
