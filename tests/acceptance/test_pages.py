"""The README's and the tutorial's commands are typed as written, and print what is written. `…` stands for anything within a line, on a
line of its own for any lines; columns may be wider than written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import pytest
from forked_program import ForkedProgram
from free_port import free_port

from headwater.core.config import load
from headwater.documents.answers import ChangeName

ROOT = Path(__file__).resolve().parents[2]


def steps(page: Path) -> Iterator[tuple[str, str]]:
    """Each command of the page's console blocks with the output written below it."""
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = step.splitlines(keepends=True)
            command = [lines.pop(0)]
            while lines and lines[0].startswith("> "):
                command.append(lines.pop(0)[2:])
            yield "".join(command), "".join(lines)


def expect(command: str, written: str, folder: Path, programs: Path | None = None, **more: str) -> None:
    """`programs`: the folder of another `headwater` than the installed one."""
    path = ":".join(str(place) for place in (programs, Path(sys.executable).parent, os.environ["PATH"]) if place)
    environment = {**os.environ, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1", **more}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, timeout=120)
    printed = (done.stdout + done.stderr).decode()  # into pipes, the two come in any order
    printed = re.sub(r"^read [\d,]+ \(\w+\)[,;] .*\n", "", printed, flags=re.MULTILINE)  # progress, which only a busy machine shows
    assert re.fullmatch(_pattern(_plain(written)), _plain(printed)), f"$ {command}\nprinted:\n{printed}\nwritten:\n{written}"


def _pattern(written: str) -> str:
    """The expression of a written output. `…` is anything within a line; on a line of its own it is any lines."""
    lines = [r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n" for line in written.splitlines()]
    return "".join(lines)


def test_what_is_left_out_of_a_page_does_not_hide_further_lines() -> None:
    assert re.fullmatch(_pattern("a … c\n…\nd"), "a b c\nx\ny\nd\n")
    assert not re.fullmatch(_pattern("a … c\nd"), "a b c\nmore c\nd\n")
    assert not re.fullmatch(_pattern("took … s."), "took 1 s.\nMore of this.\n")


def _plain(text: str) -> str:
    return "".join(re.sub(" +", " ", line).strip() + "\n" for line in text.strip().splitlines())


@pytest.fixture
def served(tmp_path: Path) -> Iterator[int]:
    with serving_in(tmp_path) as port:
        yield port


@contextmanager
def serving_in(folder: Path) -> Iterator[int]:
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "headwater.cli", "serve", "--port", str(port)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 240
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
            break
        except OSError:
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.05)
    try:
        yield port
    finally:
        server.kill()
        server.wait()


def test_the_readme(tmp_path: Path, served: int) -> None:
    found = list(steps(ROOT / "README.md"))
    assert len(found) > 6
    for command, written in found:
        expect(command.replace("8420", str(served)), written, tmp_path)


def test_the_tutorial(tmp_path: Path) -> None:
    page = ROOT / "docs" / "tutorial" / "first-steps.md"
    (program,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "visits.py").write_text(program)
    found = list(steps(page))
    assert len(found) > 4
    for command, written in found:
        expect(command, written, tmp_path)


def test_the_tutorial_of_pipelines(tmp_path: Path, forked_program: ForkedProgram) -> None:
    page = ROOT / "docs" / "tutorial" / "pipelines.md"
    (program,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "shop.py").write_text(program)
    found = list(steps(page))
    assert len(found) > 12
    for command, written in found:
        expect(command, written, tmp_path, forked_program.bin)


def test_the_tutorial_of_regions(tmp_path: Path, forked_program: ForkedProgram) -> None:
    page = ROOT / "docs" / "tutorial" / "write-ahead.md"
    (program,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "engine.py").write_text(program)
    found = list(steps(page))
    assert len(found) > 6
    for command, written in found:
        expect(command, written, tmp_path, forked_program.bin)


def test_the_tutorial_of_queues(tmp_path: Path) -> None:
    page = ROOT / "docs" / "tutorial" / "work-queue.md"
    (program,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "builder.py").write_text(program)
    found = list(steps(page))
    assert len(found) > 12
    for command, written in found:
        expect(command, written, tmp_path)


def test_the_tutorial_of_journals(tmp_path: Path, forked_program: ForkedProgram) -> None:
    page = ROOT / "docs" / "tutorial" / "journals.md"
    bank, accounts = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(bank.splitlines()) <= 40
    (tmp_path / "bank.py").write_text(bank)
    (tmp_path / "accounts.py").write_text(accounts)
    found = list(steps(page))
    assert len(found) > 15
    for command, written in found:
        expect(command, written, tmp_path, forked_program.bin)


def test_how_to_work_with_journals(tmp_path: Path, forked_program: ForkedProgram) -> None:
    page = ROOT / "docs" / "how-to" / "journals.md"
    programs = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(programs) == 7
    for number, (program, printed) in enumerate(programs):
        folder = tmp_path / str(number)
        folder.mkdir()
        ran = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=120)
        assert ran.stdout == printed, ran.stderr
    for command, written in steps(page):
        expect(command, written, tmp_path, forked_program.bin)
    (settings,) = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "headwater.toml").write_text(settings)
    assert load(cwd=tmp_path, environ={}).settings.cassandra.keyspace == "journal"


def test_the_tutorial_of_documents(tmp_path: Path, forked_program: ForkedProgram) -> None:
    page = ROOT / "docs" / "tutorial" / "documents.md"
    (program,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    (printed,) = re.findall(r"```\n\n```\n(.*?)```", page.read_text(), re.DOTALL)
    (settings,) = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "headwater.toml").write_text(settings)
    found = list(steps(page))
    assert len(found) > 12
    with serving_in(tmp_path) as port:
        for command, written in found:
            expect(command.replace("8420", str(port)), written, tmp_path, forked_program.bin)
        ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ran.stdout == printed, ran.stderr


def test_the_page_of_the_tutorial_of_documents_hears_every_event() -> None:
    (page,) = re.findall(r"```html\n(.*?)```", (ROOT / "docs" / "tutorial" / "documents.md").read_text(), re.DOTALL)
    heard = set(re.findall(r'take\("([^"]+)"', page))
    assert heard == set(get_args(ChangeName)) - {"enter", "change", "leave"}  # which a feed with a filter has


def test_how_to_work_with_documents(tmp_path: Path, served: int, forked_program: ForkedProgram) -> None:
    page = ROOT / "docs" / "how-to" / "documents.md"
    programs = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(programs) == 4
    for number, (program, printed) in enumerate(programs):
        folder = tmp_path / str(number)
        folder.mkdir()
        ran = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=120)
        assert ran.stdout == printed, ran.stderr
    for command, written in steps(page):
        expect(command.replace("8420", str(served)), written, tmp_path, forked_program.bin)
    (settings,) = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "headwater.toml").write_text(settings)
    assert load(cwd=tmp_path, environ={}).settings.cassandra.keyspace == "documents"


def test_how_to_encrypt_and_erase_journals(tmp_path: Path, forked_program: ForkedProgram) -> None:
    page = ROOT / "docs" / "how-to" / "encrypt-and-erase.md"
    ((program, printed),) = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "program").mkdir()
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path / "program", capture_output=True, text=True, timeout=120)
    assert ran.stdout == printed, ran.stderr
    for command, written in steps(page):
        expect(command, written, tmp_path, forked_program.bin)


def test_how_to_keep_a_read_model(tmp_path: Path, forked_program: ForkedProgram) -> None:
    page = ROOT / "docs" / "how-to" / "keep-a-read-model.md"
    first, second = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    (printed,) = re.findall(r"```\n\n```\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "balances.py").write_text(first)
    for command, written in steps(page):
        expect(command, written, tmp_path, forked_program.bin)
    (tmp_path / "other").mkdir()
    ran = subprocess.run([sys.executable, "-c", second], cwd=tmp_path / "other", capture_output=True, text=True, timeout=120)
    assert ran.stdout == printed, ran.stderr


def test_how_to_use_a_work_queue(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "work-queues.md").read_text()
    tasks, results, unique, waiting = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    waited, ignored, held = re.findall(r"```\n\n```\n(.*?)```", page, re.DOTALL)
    for number, (program, printed) in enumerate(((tasks, "once"), (results, waited), (unique, ignored), (waiting, held))):
        folder = tmp_path / str(number)
        folder.mkdir()
        ran = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=120)
        assert ran.stdout.splitlines() == printed.splitlines(), ran.stderr


def test_how_to_shape_a_queue(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "shape-a-queue.md").read_text()
    examples = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL)
    assert len(examples) == page.count("```python\n") == 6
    for number, (program, printed) in enumerate(examples):
        folder = tmp_path / str(number)
        folder.mkdir()
        ran = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=120)
        assert ran.stdout.splitlines() == printed.splitlines(), ran.stderr


def test_how_to_find_what_pins_a_log(tmp_path: Path, forked_program: ForkedProgram) -> None:
    page = ROOT / "docs" / "how-to" / "find-what-pins-a-log.md"
    found = list(steps(page))
    assert len(found) > 9
    for command, written in found:
        expect(command, written, tmp_path, forked_program.bin)
    (program,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert re.fullmatch(r"42 1 52 \S+Z\n", ran.stdout), ran.stdout + ran.stderr
    (settings,) = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "headwater.toml").write_text(settings)
    assert {"wal.wal.pin_limit", "wal.wal.clean_period"} <= {
        key for key, _, origin in load(cwd=tmp_path, environ={}).shown() if origin.kind == "file"
    }


def test_the_page_on_regions(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "explanation" / "regions.md").read_text(), re.DOTALL)
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ran.stdout == "12 1 b'row 1'\n12 2 b'row 2'\n", ran.stderr


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    """An empty database, for the tables and the slot of a page."""
    import psycopg

    name = f"page_{os.getpid()}"
    with psycopg.connect(postgres, autocommit=True) as link:
        link.execute(f"CREATE DATABASE {name}")
        try:
            yield postgres.rpartition("/")[0] + f"/{name}"
        finally:
            link.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", [name])
            link.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.service("postgres", "opensearch")
def test_the_tutorial_of_a_database_and_a_search_index(
    tmp_path: Path, database: str, opensearch: str, forked_program: ForkedProgram
) -> None:
    page = ROOT / "docs" / "tutorial" / "search.md"
    (program,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "shop.py").write_text(program)
    found = list(steps(page))
    assert len(found) > 12
    try:
        for command, written in found:
            expect(command, written, tmp_path, forked_program.bin, PG_URI=database, OPENSEARCH_URI=opensearch)
    finally:
        urllib.request.urlopen(urllib.request.Request(f"{opensearch}/shop-orders?ignore_unavailable=true", method="DELETE")).close()


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} points at {target}"
