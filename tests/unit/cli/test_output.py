from __future__ import annotations

import io
import json
import re
import sys
from decimal import Decimal

import pytest

from headwater.cli.output import Column, agreed, count, print_json, print_json_line, print_table, visible
from headwater.core.errors import BadInput


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


COLUMNS = [Column("topic"), Column("bytes", right=True)]
ROWS = [("bank", "1"), ("a-longer-name", "1,000"), ("x" * 300, "2")]


def test_columns_in_a_pipe_are_as_wide_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, ROWS[:2])
    assert capsys.readouterr().out == "topic          bytes\nbank               1\na-longer-name  1,000\n"
    print_table(COLUMNS, ROWS)
    assert "x" * 300 in capsys.readouterr().out


def test_a_table_without_rows_has_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, [])
    assert capsys.readouterr().out == "topic  bytes\n"


def test_a_table_on_a_terminal_folds_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "40")
    print_table(COLUMNS, [*ROWS, ("[bold]plain[/bold]", "3")])
    lines = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()).splitlines()
    assert max(map(len, lines)) <= 40
    assert sum(line.count("x") for line in lines) == 300
    assert "[bold]plain[/bold]" in screen.getvalue()


def test_the_widest_column_gives_way_and_names_and_times_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("partition", "journals", "events", "bytes", "records", "lag", "forks", "gaps", "deleted", "expired")  # 79 with their gaps
    shown = printed(monkeypatch, 80, [Column(name, right=True) for name in names], [["1"] * 10])
    assert shown[0].split() == list(names)
    columns = [Column("revision", right=True), Column("time"), Column("method"), Column("path"), Column("body")]
    row = ["1", "2026-11-18 19:40:17", "put", "shop/catalogue~/hat", '{"id":"hat","name":"hat","price":12,"stock":[1,2,3]}']
    shown = printed(monkeypatch, 80, columns, [row])
    assert max(map(len, shown)) <= 80
    assert row[1] in shown[2]
    assert row[3] in shown[2]
    assert "".join(line[60:].strip() for line in shown[2:]) == row[4]


def test_a_terminal_that_is_too_narrow_for_the_names_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = printed(monkeypatch, 12, [Column("partition"), Column("journals")], [["orders", "7"]])
    assert max(map(len, shown)) <= 12
    assert "".join(line[:6].strip() for line in shown if not line.startswith("─"))[:9] == "partition"


def printed(monkeypatch: pytest.MonkeyPatch, width: int, columns: list[Column], rows: list[list[str]]) -> list[str]:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(columns, rows)
    return re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()).splitlines()


@pytest.mark.parametrize("terminal", [True, False])
def test_a_stored_value_cannot_drive_the_terminal(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    screen = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    print_table(COLUMNS, [("\x1b]0;owned\x07\n", "1")])
    assert "\\x1b]0;owned\\x07\\n" in screen.getvalue()
    assert "\x1b]" not in screen.getvalue()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode 漢字", "plain ünïcode 漢字"),
        ("a\tb\nc", "a\\tb\\nc"),
        ("\u202egnp", "\\u202egnp"),
        ("\x9b31m", "\\x9b31m"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_counts_are_grouped() -> None:
    assert count(12345678) == "12,345,678"


def test_json_documents_and_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [1, None]})
    assert json.loads(capsys.readouterr().out) == {"a": [1, None]}
    print_json_line({"a": "é", "b": [1]})
    assert capsys.readouterr().out == '{"a":"é","b":[1]}\n'


def test_decimals_are_numbers_with_their_digits(capsys: pytest.CaptureFixture[str]) -> None:
    print_json_line({"price": Decimal("1.20")})
    assert capsys.readouterr().out == '{"price":1.20}\n'
    print_json({"price": Decimal("1.20")})
    assert '"price": 1.20' in capsys.readouterr().out


def test_nobody_to_ask_is_an_error_and_yes_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(BadInput, match="Nobody can be asked") as caught:
        agreed("Delete it?", yes=False)
    assert "--yes" in caught.value.hint
    assert agreed("Delete it?", yes=True)


@pytest.mark.parametrize(("answer", "result"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_somebody_is_asked(monkeypatch: pytest.MonkeyPatch, answer: str, result: bool) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    assert agreed("Delete it?", yes=False) is result
