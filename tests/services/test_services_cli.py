"""The command line of the services."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.services import KINDS
from tools.services.__main__ import main

pytestmark = pytest.mark.service()


def test_where_nothing_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (["status"], "nothing runs"), (["status", "--json"], "[]"), (["env"], ""), (["down"], "nothing was running"):
        assert main([*words, "--run", str(tmp_path / "run")]) == 0
        assert capsys.readouterr().out.startswith(said)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["up", "kafka", "--brokers", "2"], 5, "1 or 3 brokers"),
        (["down", "kafak"], 5, f"There are {', '.join(sorted(KINDS))}."),
    ],
)
def test_what_cannot_be_meant_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str) -> None:
    assert main([*words, "--run", str(tmp_path / "run")]) == code
    assert said in capsys.readouterr().err


def test_an_unknown_server_is_a_typing_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["up", "kafak"])
    assert ended.value.code == 2
    assert "kafak" in capsys.readouterr().err


def test_what_runs_is_told(kafka: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--json"]) == 0
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert (found["kafka"]["state"], found["kafka"]["address"]) == ("up", kafka)
    assert Path(found["kafka"]["nodes"][0]["log"]).is_file()
    assert main(["status"]) == 0
    assert f"kafka\tup\t{kafka}" in capsys.readouterr().out
    assert main(["env"]) == 0
    assert f"export HEADWATER_KAFKA__BOOTSTRAP={kafka}" in capsys.readouterr().out
