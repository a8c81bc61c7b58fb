"""Threads of a worker: as many as are needed, and none that keeps a process."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from headwater.client.worker_threads import WorkerThreads


def test_calls_return_and_raise() -> None:
    threads = WorkerThreads(2, "t")
    assert [threads.submit(pow, 2, n).result(60) for n in range(5)] == [1, 2, 4, 8, 16]
    with pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 // 0).result(60)
    threads.shutdown()
    with pytest.raises(RuntimeError):
        threads.submit(pow, 2, 2)


def test_so_many_run_at_once_and_no_more() -> None:
    threads, gate, at_once = WorkerThreads(3, "t"), threading.Barrier(4), list[int]()
    lock, running = threading.Lock(), 0

    def call(waits: bool) -> None:
        nonlocal running
        with lock:
            running += 1
            at_once.append(running)
        if waits:
            gate.wait(60)
        with lock:
            running -= 1

    first = [threads.submit(call, True) for _ in range(3)]
    later = [threads.submit(call, False) for _ in range(5)]
    gate.wait(60)
    for future in first + later:
        future.result(60)
    threads.shutdown()
    assert max(at_once) == 3


def test_a_function_that_hangs_does_not_keep_the_process() -> None:
    code = (
        "import threading\n"
        "from headwater.client.worker_threads import WorkerThreads\n"
        "began = threading.Event()\n"
        "threads = WorkerThreads(1, 't')\n"
        "threads.submit(lambda: (began.set(), threading.Event().wait()))\n"
        "began.wait()\n"
        "threads.shutdown()\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=240).returncode == 0
