"""SIGTERM and Ctrl-C for a worker."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from headwater.client.worker_signals import ProcessSignals, stop_signals


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    """As Python begins: other tests of the process may have set handlers."""
    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, signal.SIG_DFL),
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def _heard(*numbers: signal.Signals) -> list[signal.Signals]:
    heard: list[signal.Signals] = []
    with stop_signals(heard.append):
        for number in numbers:
            signal.raise_signal(number)
            async with asyncio.timeout(60):
                while not heard or heard[-1] is not number:
                    await asyncio.sleep(0)
    return heard


def test_both_signals_are_heard_and_handled_as_before_afterwards() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    assert asyncio.run(_heard(signal.SIGTERM, signal.SIGINT)) == [signal.SIGTERM, signal.SIGINT]
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_signal_that_the_program_handles_stays_its_own() -> None:
    own: list[int] = []

    async def main() -> list[signal.Signals]:
        heard: list[signal.Signals] = []
        with stop_signals(heard.append):
            signal.raise_signal(signal.SIGTERM)
            await asyncio.sleep(0)
        return heard

    before = signal.signal(signal.SIGTERM, lambda number, frame: own.append(number))
    try:
        assert (asyncio.run(main()), own) == ([], [signal.SIGTERM])
    finally:
        signal.signal(signal.SIGTERM, before)


def test_another_thread_hears_none() -> None:
    async def main() -> bool:
        return await asyncio.to_thread(lambda: asyncio.run(_entered()))

    async def _entered() -> bool:
        with stop_signals(lambda number: None):
            return True

    assert asyncio.run(main())


def test_a_process_that_stops_by_itself_is_not_killed_by_a_second_signal() -> None:
    signals = ProcessSignals()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signals)

    async def stopped() -> None:
        with stop_signals(lambda number: setattr(signals, "stopping", True)):
            signal.raise_signal(signal.SIGTERM)
            async with asyncio.timeout(60):
                while not signals.stopping:
                    await asyncio.sleep(0)

    asyncio.run(stopped())
    for number in (signal.SIGTERM, signal.SIGINT):
        assert signal.getsignal(number) is signals
        signal.raise_signal(number)  # as `timeout` does


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)])
def test_a_signal_before_that_ends_the_process_as_usual(number: signal.Signals, code: int) -> None:
    program = (
        "import signal\nfrom headwater.client.worker_signals import ProcessSignals\n"
        f"signal.signal({number.value}, ProcessSignals())\nsignal.raise_signal({number.value})\nprint('goes on')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (code, "")
