"""The thread behind the blocking door: calls from several threads, errors, and the end."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import pydoc
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType

import anyio
import pytest

import headwater
from headwater.client.blocking_door import _Loop
from headwater.core.errors import Closed, NotFound, UnknownQueue
from headwater.log.record import Record

NAME = contextvars.ContextVar("NAME", default="none")


@pytest.fixture
def loop() -> Iterator[_Loop]:
    made = _Loop()
    made.start()
    yield made
    made.close()


async def doubled(number: int, *, plus: int = 0) -> int:
    await asyncio.sleep(0)
    return 2 * number + plus


async def failing() -> None:
    raise NotFound("Nothing.", hint="h")


def test_a_call_gives_its_result_or_its_error(loop: _Loop) -> None:
    assert loop.call(doubled, 4, plus=1) == 9
    with pytest.raises(NotFound, match=r"Nothing\."):
        loop.call(failing)
    with pytest.raises(TypeError):
        loop.call(doubled)
    assert loop.call(doubled, 1) == 2


def test_a_forked_child_is_told_to_open_its_own_and_waits_for_nobody(loop: _Loop) -> None:
    async def counted() -> AsyncIterator[int]:
        for number in range(3):
            yield number

    items = loop.iterate(counted())
    assert next(items) == 0
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with pytest.raises(Closed, match="forked"):
                loop.call(doubled, 1)
            loop.close()
            items.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert loop.call(doubled, 1) == 2
    assert list(items) == [1, 2]


def test_threads_call_at_once(loop: _Loop) -> None:
    results: dict[int, list[int]] = {}

    def work(name: int) -> None:
        results[name] = [loop.call(doubled, name * 1000 + number) for number in range(200)]

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {name: [2 * (name * 1000 + number) for number in range(200)] for name in range(8)}


def test_a_call_sees_the_context_of_its_caller(loop: _Loop) -> None:
    async def named() -> str:
        return NAME.get()

    token = NAME.set("mine")
    try:
        assert loop.call(named) == "mine"
    finally:
        NAME.reset(token)


def test_closing_waits_for_calls_under_way_and_lets_no_new_one_begin(loop: _Loop) -> None:
    began, go, order = threading.Event(), asyncio.Event(), list[str]()

    async def slow() -> str:
        began.set()
        await go.wait()
        order.append("done")
        return "done"

    async def let_go() -> None:
        go.set()

    found: list[str] = []
    calling = threading.Thread(target=lambda: found.append(loop.call(slow)))
    calling.start()
    assert began.wait(60)

    def close() -> None:
        loop.close()
        order.append("closed")

    closing = threading.Thread(target=close)
    closing.start()
    while not loop.closed:
        pass
    with pytest.raises(Closed):
        loop.call(doubled, 1)
    assert order == []
    loop._loop.call_soon_threadsafe(go.set)
    closing.join()
    calling.join()
    assert found == ["done"]
    assert order == ["done", "closed"]
    loop.close()  # twice is no error


def test_ctrl_c_ends_the_wait_and_the_call(loop: _Loop) -> None:
    cancelled = threading.Event()

    async def endless() -> None:
        threading.Thread(target=signal.pthread_kill, args=(main, signal.SIGINT)).start()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    main = threading.main_thread().ident
    assert main is not None
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.call(endless)
    finally:
        signal.signal(signal.SIGINT, before)
    assert cancelled.wait(60)
    assert loop.call(doubled, 2) == 4


def test_a_stream_that_is_held_open_is_closed_with_the_door(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with headwater.open_blocking(tmp_path, create=True) as hw:
        bank = hw.journals("bank", create=True).open()
        bank["alice"].append(1)
        events = iter(bank.follow())
        assert next(events).payload == 1
    with pytest.raises(Closed):
        next(events)
    assert caplog.messages == []


def test_a_thread_that_cannot_begin_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(serve: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(anyio, "run", full)
    with pytest.raises(OSError, match="Too many open files"):
        _Loop().start()


def test_what_an_answer_holds_blocks_too(tmp_path: Path) -> None:
    with headwater.open_blocking(tmp_path, create=True) as hw:
        pages = hw.queue("pages", create=True)
        pages.put("/about", {"why": "edited"})
        claimed = pages.exchange(1)
        assert claimed.stale == []
        claimed.claims[0].done()
        assert pages.count().processing == 0


def test_what_is_created_is_there_at_once(tmp_path: Path) -> None:
    """`await hw.queue("pages", create=True)` creates the queue. Without `await` the call does, or the next one would find none."""
    with headwater.open_blocking(tmp_path, create=True) as hw:
        assert hw.queue("pages", create=True).put("/about").id > 0
        assert hw.journals("bank", create=True)["alice"].append({"type": "opened"}).last == 1
        with pytest.raises(UnknownQueue):
            hw.queue("orders").put("1")


def test_dir_shows_attributes_beside_methods(tmp_path: Path) -> None:
    with headwater.open_blocking(tmp_path, create=True) as hw:
        pages = hw.queue("pages", create=True)
        pages.put("/about", {"why": "edited"})
        (claim,) = pages.claim(1)
        assert {"key", "data", "token", "done", "fail"} <= set(dir(claim))
        assert {"views", "list"} <= set(dir(hw.documents))
        assert {"indexes", "query"} <= set(dir(hw.documents["shop/catalogue~"]))
        assert {"snapshots", "append"} <= set(dir(hw.journals("bank")["alice"]))
        assert "aclose" not in dir(hw.log)


def test_help_says_what_plain_code_writes(tmp_path: Path) -> None:
    with headwater.open_blocking(tmp_path, create=True) as hw:
        shop = hw.documents["shop/catalogue~"]
        assert inspect.signature(shop.feed).return_annotation == "Iterator[DocumentChange]"
        for part in (hw.queue, hw.journals, hw.documents, hw.wal, hw.pipelines, shop, hw.queue("pages")):
            assert "await " not in pydoc.plain(pydoc.render_doc(part))


def test_an_interrupt_between_two_steps_of_a_lock_is_the_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        lock = threading.Lock()
        with lock:
            lock.release()
            raise KeyboardInterrupt  # and `with` finds its lock released

    loop = _Loop()
    monkeypatch.setattr(loop._ready, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.start()
    assert loop.closed


def notebook(shell: object) -> ModuleType:
    """IPython as a program finds it: `get_ipython` gives the shell, in a notebook and in a terminal; None in a program that imports it."""
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    return ipython


def test_it_works_in_a_cell_of_a_notebook_whose_loop_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def cell() -> list[str]:
        assert asyncio.get_running_loop()
        with headwater.open_blocking(tmp_path / "data", create=True) as hw:
            hw.log.create_topic("orders")
            hw.log.append("orders", 0, [Record(b"k", b"v")])
            assert [record.value for record in islice(hw.log.tail("orders", 0, 0), 1)] == [b"v"]
            hw.wal("wal").create(7)
            assert hw.wal("wal")[7].write(1, [b"x"]) == 1
            return [topic.name for topic in hw.log.topics()]

    monkeypatch.setitem(sys.modules, "IPython", notebook(object()))
    assert "orders" in asyncio.run(cell())


def test_elsewhere_a_running_loop_is_not_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def program() -> None:
        with headwater.open_blocking(tmp_path, create=True):
            pass

    with pytest.raises(RuntimeError, match=r"async with headwater\.open"):
        asyncio.run(program())
    monkeypatch.setitem(sys.modules, "IPython", notebook(None))  # imported, as by a library, and not running
    with pytest.raises(RuntimeError, match=r"async with headwater\.open"):
        asyncio.run(program())
