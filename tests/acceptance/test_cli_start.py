"""Starting: quickly, without what a command does not need, and honest about bugs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from program import Program, environment

HEAVY = ("pyspark", "pandas", "pyarrow", "numpy", "confluent_kafka", "cassandra", "starlette", "uvicorn")


@pytest.fixture
def headwater(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest.mark.parametrize("words", [["--help"], ["log", "--help"], ["log", "show", "--help"], ["version"], ["config"]])
def test_nothing_heavy_is_imported_to_begin_with(tmp_path: Path, words: list[str]) -> None:
    script = f"""
import sys
from headwater.cli.running import run
code = run({words!r})
print("loaded", [name for name in {HEAVY!r} if name in sys.modules])
sys.exit(code)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "loaded []"


def test_importing_the_library_imports_nothing_heavy() -> None:
    script = f"import sys, headwater; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=240)
    assert done.stdout == "[]\n"


def test_version(headwater: Program) -> None:
    ran = headwater("version", "--json")
    assert ran.code == 0
    assert {"headwater", "python", "pyspark"} <= set(ran.json)
    assert headwater("version").out.splitlines()[0] == f"headwater {ran.json['headwater']}"


@pytest.mark.parametrize(("words", "says"), [([], "Usage:"), (["frobnicate"], "No such command"), (["--frobnicate"], "No such option")])
def test_wrong_words_are_exit_2(headwater: Program, words: list[str], says: str) -> None:
    ran = headwater(*words)
    assert ran.code == 2
    assert says in ran.out + ran.err
    assert "Traceback" not in ran.err


def test_help_is_exit_0(headwater: Program) -> None:
    for words in (["--help"], ["log", "--help"], ["log", "show", "-h"]):
        ran = headwater(*words)
        assert (ran.code, ran.err) == (0, "")
        assert "Usage:" in ran.out


def test_python_dash_m_is_the_same_program(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headwater.cli", "log", "topics", "--json"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 3
    assert json.loads(done.stderr)["code"] == "not-found"


def test_a_bug_of_ours_is_exit_1_with_a_report(tmp_path: Path) -> None:
    """A command that fails in a way nobody thought of: here the version's own lookup is broken."""
    script = """
import sys
from headwater.cli import main, version
version.PACKAGES = None
sys.argv = ["headwater", "version", "--json"]
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment(TMPDIR=str(tmp_path)), capture_output=True, text=True, timeout=240
    )
    assert (done.returncode, done.stdout) == (1, "")
    problem = json.loads(done.stderr)
    [report] = tmp_path.glob(f"headwater-{problem['errorId']}-*.txt")
    assert str(report) in problem["hint"]
    assert "TypeError" in report.read_text()


def test_completion_is_offered(headwater: Program) -> None:
    # Without this, typer goes by the shell above this process, and there may be none.
    ran = headwater("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert ran.code == 0
    assert "headwater" in ran.out
