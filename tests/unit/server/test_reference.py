"""The reference names everything that the server and the door offer, and its examples run."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.client.log import AsyncLog
from headwater.client.pipelines import OnePipeline
from headwater.server.operation import Operation
from headwater.server.routes import health, log_table, pipelines_table

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
EVERY: list[Operation] = [*health.TABLE, *log_table.TABLE, *pipelines_table.TABLE]


def rows() -> dict[str, tuple[str, str]]:
    found = re.findall(r"^\| `([A-Z]+ /\S*)` \| (\w+) \| (.*) \|$", (REFERENCE / "http.md").read_text(), re.MULTILINE)
    return {address: (role, text) for address, role, text in found}


def test_every_address_is_in_the_reference_and_no_other() -> None:
    assert set(rows()) == {f"{operation.method} {operation.path}" for operation in EVERY}


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
def test_its_role_and_parameters_are_told(operation: Operation) -> None:
    role, text = rows()[f"{operation.method} {operation.path}"]
    assert role == operation.role.name.lower().replace("nobody", "none")
    assert set(re.findall(r"`(\w+)`", text)) == {param.name for param in operation.query}


@pytest.mark.parametrize(("heading", "offering"), [("hw.log", AsyncLog), ("hw.pipelines", OnePipeline)])
def test_every_call_of_the_door_is_in_the_reference(heading: str, offering: type) -> None:
    text = (REFERENCE / "python.md").read_text().partition(f"## `{heading}`\n")[2].partition("\n## ")[0]
    calls = re.findall(r"^\| `(\w+)\((.*)\)` \|", text, re.MULTILINE)
    offered = {
        name: value for name, value in inspect.getmembers(offering, inspect.isfunction) if not name.startswith("_") and name != "aclose"
    }
    assert {name for name, _ in calls} == set(offered)
    for name, written in calls:
        names = [part.partition("=")[0].strip() for part in written.split(",") if part.strip() not in ("*", ")", "")]
        assert names == [name for name in inspect.signature(offered[name]).parameters if name != "self"]


def test_the_examples_run(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", (REFERENCE / "python.md").read_text(), re.DOTALL)
    assert len(examples) == 3
    printed = ""
    for code in examples:
        ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stderr
        printed += ended.stdout
    assert "durable at [0]" in printed
    assert "Bounds(start=0, end=2)" in printed
