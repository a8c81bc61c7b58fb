"""`headwater config`: every value with its origin, and nothing applied where something is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked_program import ForkedProgram
from program import Program

from headwater.core.settings import every_setting


@pytest.fixture
def headwater(tmp_path: Path, forked_program: ForkedProgram) -> Program:
    return Program(tmp_path, forked_program)


def test_every_value_with_its_origin(headwater: Program) -> None:
    file = headwater.home / "headwater.toml"
    file.write_text('data = "here"\n[server]\nport = 1\n[kafka.client]\n"sasl.password" = "hunter2"\n')
    ran = headwater("config", "--json", "--data", "there", HEADWATER_SERVER__HOST="::1")
    assert ran.code == 0
    found = {one["key"]: (one["value"], one["origin"]["kind"], one["origin"]["where"]) for one in ran.json}
    assert found["data"] == (str(headwater.home / "there"), "flag", "--data")
    assert found["server.host"] == ("::1", "environment", "HEADWATER_SERVER__HOST")
    assert found["server.port"] == (1, "file", f"{file}:3")
    assert found["log.segment"] == ("256MiB", "default", "")
    assert found["kafka.client.sasl.password"][0] == "********"
    assert {setting.key for setting in every_setting() if not setting.passed_on} <= set(found)

    people = headwater("config", "--config", str(file))
    assert people.code == 0
    assert "hunter2" not in people.out
    rows = {line.split()[0]: line.split()[1:] for line in people.out.splitlines()}
    assert rows["server.port"] == ["1", f"{file}:3"]
    assert rows["server.token_file"] == ["-", "default"]


@pytest.mark.parametrize(
    ("toml", "env", "says"),
    [
        ("[server]\nprot = 1", {}, "`server.port`"),
        ("[server]\nmax_body = 16", {}, "unit"),
        ("", {"HEADWATER_SERVER_PORT": "1"}, "HEADWATER_SERVER__PORT"),
        ("[server]\nport = 70000", {}, "65535"),
        ("[server", {}, "no TOML"),
        ('[kafka.client]\n"sasl.password" = ["hunter2"]', {}, "a text"),
    ],
)
def test_a_bad_config_stops_every_command_before_it_does_anything(headwater: Program, toml: str, env: dict[str, str], says: str) -> None:
    (headwater.home / "headwater.toml").write_text(toml)
    for words in (["config"], ["log", "create", "bank"], ["doctor"]):
        ran = headwater(*words, "--json", **env)
        assert (ran.code, ran.problem["code"], ran.out) == (2, "bad-config", "")
        assert says in ran.problem["detail"] + ran.problem["hint"]
        assert "hunter2" not in ran.err
    assert not headwater.data.exists()
