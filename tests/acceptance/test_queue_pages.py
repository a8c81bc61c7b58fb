"""The how-tos of queues in web frameworks: their files are written, their commands typed, their tests run, with the real packages."""

from __future__ import annotations

import inspect
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forked_program import ForkedProgram
from free_port import free_port
from test_pages import expect, steps

from headwater.client.presence import serving
from headwater.client.queue import OneQueue
from headwater.queue.settings import QueueSettings

ROOT = Path(__file__).resolve().parents[2]
HOW_TO = ROOT / "docs" / "how-to"
PROGRAMS = Path(sys.executable).parent


def files(page: Path, folder: Path) -> list[str]:
    """Write each file of a page: a block whose sentence before it names it. Returns their names."""
    names = []
    for before, program in re.findall(r"([^\n]+)\n\n```python\n(.*?)```", page.read_text(), re.DOTALL):
        path = folder / re.findall(r"`([\w/]+\.py)`", before)[-1]
        path.parent.mkdir(parents=True, exist_ok=True)
        adds = "dd to `" in before
        path.write_text((path.read_text() if adds else "") + program)
        names.append(path.name)
    return names


def written(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


@contextmanager
def running(command: str, folder: Path, ready: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of a page that goes on, from the moment in which `ready`, an address or a directory, is served."""
    environment = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
    process = subprocess.Popen(f"exec {command}", shell=True, cwd=folder, env=environment, start_new_session=True)
    try:
        deadline, never = time.monotonic() + 240, threading.Event()
        while not _answers(ready, folder):
            assert process.poll() is None, f"{command} has ended"
            assert time.monotonic() < deadline, f"{command} does not answer"
            never.wait(0.05)
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(240) in (0, -signal.SIGTERM)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answers(ready: str, folder: Path) -> bool:
    if not ready.startswith("http"):
        return serving(folder / ready) is not None
    try:
        urllib.request.urlopen(f"{ready}/openapi.json", timeout=5).close()
    except OSError:
        return False
    return True


def post(url: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=120) as answer:
        body: bytes = answer.read()
    return body


def pytest_in(folder: Path, name: str) -> None:
    """The tests of a page, run as a user's would be."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(folder), name]
    ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_how_to_use_a_queue_in_fastapi(tmp_path: Path, forked_program: ForkedProgram) -> None:
    page = HOW_TO / "queue-in-fastapi.md"
    assert files(page, tmp_path) == ["shop.py", "small.py", "test_shop.py"]
    serve, uvicorn = written(page, "sh")
    port = str(free_port())
    with running(serve.replace("8420", "0"), tmp_path, "data"):
        with running(uvicorn.replace("8000", port), tmp_path, f"http://127.0.0.1:{port}"):
            found = list(steps(page))
            assert len(found) == 5
            for command, printed in found:
                expect(command.replace("8000", port), printed, tmp_path, forked_program.bin)
    pytest_in(tmp_path, "test_shop.py")


def test_a_worker_in_the_process_of_fastapi(tmp_path: Path) -> None:
    page, port = HOW_TO / "queue-in-fastapi.md", str(free_port())
    files(page, tmp_path)
    with running(f"uvicorn small:app --port {port}", tmp_path, f"http://127.0.0.1:{port}"):
        assert post(f"http://127.0.0.1:{port}/edited/menu") == b'{"outcome":"inserted"}'
        deadline, never = time.monotonic() + 240, threading.Event()
        while not (tmp_path / "menu.html").exists():
            assert time.monotonic() < deadline, "the worker never runs"
            never.wait(0.02)


def test_how_to_use_a_queue_in_django(tmp_path: Path, forked_program: ForkedProgram) -> None:
    page = HOW_TO / "queue-in-django.md"
    found = list(steps(page))
    assert len(found) == 9
    for command, printed in found[:2]:
        expect(command, printed, tmp_path)
    assert files(page, tmp_path) == ["settings.py", "models.py", "queue.py", "views.py", "urls.py", "work.py", "tests.py"]
    (serve,) = written(page, "sh")
    with running(serve.replace("8420", "0"), tmp_path, "data"):
        for command, printed in found[2:]:
            expect(command, printed, tmp_path, forked_program.bin)


def test_how_to_come_from_celery(tmp_path: Path, forked_program: ForkedProgram) -> None:
    page = HOW_TO / "queue-from-celery.md"
    assert files(page, tmp_path) == ["celery_before.py", "pages.py", "celery_tasks.py", "later.py", "test_moving.py"]
    pytest_in(tmp_path, "test_moving.py")
    before = "import celery_before; print(celery_before.rebuild.apply(['/about']).state)"
    ran = subprocess.run([sys.executable, "-c", before], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (ran.stdout, (tmp_path / "built.txt").read_text()) == ("SUCCESS\n", "/about\n"), ran.stderr
    put = "import pages; print(pages.rebuild.put('/menu').outcome)"  # its queue is opened, and closed at the end
    ran = subprocess.run([sys.executable, "-c", put], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ran.stdout == "inserted\n", ran.stderr
    (work,) = re.findall(r"`(headwater queue work pages pages:tasks --drain)`", page.read_text())
    expect(work, "1 row done, 0 failed, 0 given up, 0 released.", tmp_path, forked_program.bin)
    (command,) = re.findall(r"`(headwater queue work [^`]*--processes 2 --concurrency 4)`", page.read_text())
    expect(f"{command} --drain", "0 rows done, 0 failed, 0 given up, 0 released.", tmp_path, forked_program.bin)


def test_the_words_beside_those_of_celery_are_options_and_settings() -> None:
    words = (HOW_TO / "queue-from-celery.md").read_text().partition("## The words")[2].partition("\n## ")[0]
    options = set(re.findall(r'"(\w+)":', words))
    assert {"delay", "process_date", "expiration_date", "priority", "cron", "zone", "every"} <= options
    assert options <= set(inspect.signature(OneQueue.put).parameters)
    settings = set(re.findall(r"`(max_\w+|rate\w*|lease)[`=]", words.replace("`max_retries`", "").replace('`rate_limit="', "")))
    assert settings == {"max_attempts", "max_timeouts", "rate", "rate_period", "lease"} <= set(QueueSettings.__struct_fields__)
