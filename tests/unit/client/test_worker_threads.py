"""Threads of a worker: as many as are needed, and none that keeps a process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from headwater.client.worker_threads import RowThreads, WorkerThreads, in_thread


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


def test_a_row_is_known_while_its_function_runs_in_a_thread() -> None:
    threads = WorkerThreads(1, "t")
    rows, began, ends = RowThreads(threads), threading.Event(), threading.Event()

    def call() -> str:
        began.set()
        ends.wait(60)
        return asyncio.run(in_thread(lambda: "in another thread"))  # its own is the only one that the rows have

    async def run() -> None:
        rows.enter("1-1")
        called = asyncio.create_task(in_thread(call))
        await asyncio.to_thread(began.wait, 60)
        assert "1-1" in rows
        ends.set()
        assert await called == "in another thread"
        assert "1-1" not in rows

    asyncio.run(run())
    threads.shutdown()


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
