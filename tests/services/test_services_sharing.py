"""How tests get their servers: pytest is run as people run it, with the fixtures of tests/conftest.py, on tests written here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools.services.place import Place
from tools.services.runner import Runner

pytestmark = pytest.mark.service()
ROOT = Path(__file__).resolve().parents[2]

USES_KAFKA = """
import pytest
from tools.services import up

@pytest.mark.parametrize("number", range(4))
def test_kafka(kafka, number, worker_id):
    running = up("kafka", kept=False)
    print("saw", kafka, running.pid("broker-1"), worker_id)
"""


def run_pytest(folder: Path, text: str, *words: str, **env: str) -> str:
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "-o", "markers=service", "--rootdir", str(folder), "-p", "tests.conftest"]
    kept = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-rA", *words, str(folder)], env={**kept, **env}, cwd=ROOT, capture_output=True, text=True
    )
    return done.stdout + done.stderr


def test_workers_share_one_server_and_it_is_stopped_at_the_end(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, USES_KAFKA, "-n", "2", HEADWATER_SERVICES=str(tmp_path / "run"))
    assert "4 passed" in said, said
    seen = [line.split()[1:] for line in said.splitlines() if line.startswith("saw ")]
    assert len({(address, pid) for address, pid, _ in seen}) == 1, said
    assert {worker for *_, worker in seen} == {"gw0", "gw1"}
    assert Runner(Place.usual(tmp_path / "run")).states() == {}
    assert "kafka has stopped" in said


@pytest.mark.parametrize(("ci", "outcome"), [("", "1 skipped"), ("1", "1 error")])
def test_without_a_network_tests_are_skipped_but_not_in_ci(tmp_path: Path, ci: str, outcome: str) -> None:
    settings = tmp_path / "settings.xml"
    settings.write_text('<ivysettings><settings defaultResolver="none"/><resolvers><filesystem name="none"/></resolvers></ivysettings>')
    env = {"HEADWATER_CACHE": str(tmp_path / "cache"), "HEADWATER_SERVICES": str(tmp_path / "run"), "HEADWATER_IVY_SETTINGS": str(settings)}
    said = run_pytest(tmp_path, "def test_it(kafka): pass", **env, CI=ci)
    assert outcome in said, said
    assert "could not be had after 4 attempts" in said
