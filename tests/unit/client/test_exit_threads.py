"""What a program has left open is ended, once, and only while somebody refers to it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.client.exit_threads import end_at_exit, end_left_open


class Door:
    def __init__(self, ended: list[str], name: str) -> None:
        self._ended, self._name = ended, name

    def end(self) -> None:
        self._ended.append(self._name)


def running(monkeypatch: pytest.MonkeyPatch, *threads: threading.Thread) -> None:
    """Take these for the threads of the process."""
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.main_thread(), *threads])


def test_what_is_left_open_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = list[str]()
    kept, forgotten = Door(ended, "kept"), Door(ended, "forgotten")
    end_at_exit(kept)
    end_at_exit(kept)
    end_at_exit(forgotten)
    del forgotten
    running(monkeypatch, threading.Thread(daemon=True))
    end_left_open()
    assert ended == ["kept"]


def test_nothing_is_ended_while_threads_of_the_program_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = list[str]()
    door = Door(ended, "used")
    end_at_exit(door)
    running(monkeypatch, threading.Thread())
    end_left_open()
    assert ended == []
    with ThreadPoolExecutor(1) as pool:
        running(monkeypatch, pool.submit(threading.current_thread).result())
        end_left_open()
    assert ended == ["used"]
