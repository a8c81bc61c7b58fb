from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from headwater.cli import main
from headwater.cli.running import run
from headwater.core.errors import BadConfig, Damaged, HeadwaterError, UnknownTopic


def tree(command: Callable[[], None]) -> Callable[[], typer.Typer]:
    """A command line with one command, `go`, that takes --json."""

    def build() -> typer.Typer:
        root = typer.Typer(pretty_exceptions_enable=False)
        root.callback()(lambda: None)

        @root.command("go")
        def go(as_json: bool = typer.Option(False, "--json")) -> None:
            command()

        return root

    return build


def raising(error: BaseException) -> Callable[[], typer.Typer]:
    def command() -> None:
        raise error

    return tree(command)


def ran(words: list[str], build: Callable[[], typer.Typer]) -> tuple[int, str]:
    stderr = io.StringIO()
    return run(words, tree=build, stderr=stderr, ids=lambda: "abcdef0123456789"), stderr.getvalue()


def test_done_is_zero_and_silent() -> None:
    assert ran(["go"], tree(lambda: None)) == (0, "")


def test_a_command_chooses_its_exit_code() -> None:
    assert ran(["go"], raising(typer.Exit(10))) == (10, "")


@pytest.mark.parametrize("kind", [UnknownTopic, Damaged, BadConfig, HeadwaterError])
def test_an_error_is_a_line_and_a_hint(kind: type[HeadwaterError]) -> None:
    code, told = ran(["go"], raising(kind("There is no topic bank.", hint="Make it.")))
    assert code == kind.exit_code
    assert told == "headwater: There is no topic bank.\n  Make it.\n"


def test_what_an_error_repeats_of_a_record_does_not_drive_the_terminal() -> None:
    code, told = ran(["go"], raising(BadConfig("It refuses \x1b[2Jthis.\nAnd \u202ethat.", hint="See\n  it.\x07")))
    assert (code, told) == (2, "headwater: It refuses \\x1b[2Jthis.\nAnd \\u202ethat.\n  See\n  it.\\x07\n")


def test_an_error_without_a_hint_is_one_line() -> None:
    assert ran(["go"], raising(UnknownTopic("There is no topic bank."))) == (3, "headwater: There is no topic bank.\n")


def test_an_error_with_json_is_one_problem_object() -> None:
    code, told = ran(["go", "--json"], raising(UnknownTopic("There is no topic bank.", hint="Make it.")))
    assert code == 3
    assert json.loads(told) == {
        "title": "Unknown topic",
        "status": 404,
        "code": "unknown-topic",
        "detail": "There is no topic bank.",
        "hint": "Make it.",
        "exitCode": 3,
    }
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "says"), [(["gone"], "No such command"), (["go", "--nope"], "No such option"), (["go", "more"], "unexpected")]
)
def test_wrong_words_are_usage(words: list[str], says: str) -> None:
    code, told = ran(words, tree(lambda: None))
    assert code == 2
    assert says in told
    assert "--help`" in told.splitlines()[-1]
    code, told = ran([*words, "--json"], tree(lambda: None))
    assert (code, json.loads(told)["code"], json.loads(told)["exitCode"]) == (2, "usage", 2)


@pytest.mark.parametrize("option", ["--data", "--server", "--config", "--json"])
def test_an_option_of_every_command_in_front_of_the_command_is_told_where_it_belongs(option: str) -> None:
    code, told = ran([option, "x", "go"], tree(lambda: None))
    assert code == 2
    assert f"{option} stands behind the command" in told


def test_a_question_ends_with_its_own_mark() -> None:
    code, told = ran(["goo"], tree(lambda: None))
    assert (code, told.splitlines()[0]) == (2, "headwater: No such command 'goo'. Did you mean 'go'?")


def test_interrupted_is_130() -> None:
    assert ran(["go"], raising(KeyboardInterrupt())) == (130, "")
    assert ran(["go"], raising(typer.Abort())) == (130, "")


def test_a_bug_is_told_with_a_report_and_its_trace_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, told = ran(["go"], raising(ZeroDivisionError("by zero")))
    assert code == 1
    assert "This is a bug in headwater (ZeroDivisionError), report abcdef012345." in told
    assert "Traceback" not in told
    [report] = tmp_path.iterdir()
    assert str(report) in told
    text = report.read_text()
    assert "report abcdef012345" in text
    assert "ZeroDivisionError: by zero" in text
    assert report.stat().st_mode & 0o077 == 0


def test_a_bug_with_json_names_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, told = ran(["go", "--json"], raising(ZeroDivisionError()))
    problem: dict[str, Any] = json.loads(told)
    assert (code, problem["code"], problem["errorId"], problem["exitCode"]) == (1, "bug", "abcdef012345", 1)


def test_where_no_file_can_be_written_the_trace_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    code, told = ran(["go"], raising(ZeroDivisionError("by zero")))
    assert code == 1
    assert "Traceback" in told
    assert "written above" in told


def test_ctrl_c_while_the_program_is_being_loaded_shows_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loading(ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name == "run":
                raise KeyboardInterrupt
            raise AttributeError(name)

    monkeypatch.setitem(sys.modules, "headwater.cli.running", Loading("headwater.cli.running"))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


def stopping(where: str) -> subprocess.CompletedProcess[str]:
    """The program, which gets SIGTERM when the code `where` runs."""
    kill = "os.kill(os.getpid(), signal.SIGTERM)"
    code = f"import os, signal, sys, headwater.cli as cli, headwater.cli.running as running\n{where.format(kill=kill)}\ncli.main()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("running.run = lambda words: {kill}", "Stopped before the command began. Nothing has changed."),
        ("running.run = lambda words, run=running.run: run(['version'], tree=lambda: {kill})", "Stopped before the command began"),
    ],
)
def test_a_stop_in_the_first_moment_is_told_and_has_its_code(where: str, said: str) -> None:
    ended = stopping(where)
    assert ended.returncode == 143
    assert said in ended.stderr
