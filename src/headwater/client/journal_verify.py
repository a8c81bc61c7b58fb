"""Has a large topic of journals compared with its log by a process of its own, which may use Spark."""

from __future__ import annotations

import asyncio
import contextlib
import sys

import msgspec

from headwater.core.errors import TaskFailed
from headwater.journal.verify import TopicVerification
from headwater.journal.verify_process import VerifyOrder, VerifyOutcome, encode_order
from headwater.wire.problems import error_named
from headwater.wire.progress import report

_PATIENCE = 10.0  # seconds in which a process that is cancelled ends its Java


async def verify_elsewhere(order: VerifyOrder) -> TopicVerification:
    """What the process has found. Its progress is reported here. A call that is cancelled ends the process.

    Errors: those of `verify_topic`; `TaskFailed` where the process dies.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "headwater.journal.verify_process",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C reaches this process alone, which then ends it
        limit=1 << 26,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    last = b""
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it is dead already: its exit code tells
            process.stdin.write(encode_order(order))
            await process.stdin.drain()
        async for line in process.stdout:
            if line.startswith(b"["):
                report(*msgspec.json.decode(line, type=tuple[int, int]))
            else:
                last = line
        await process.wait()
    finally:
        if process.returncode is None:
            await asyncio.shield(_ended(process))
    if not last:
        raise TaskFailed(
            f"The process that compares {order.topic} ended with {process.returncode}.", hint="See the log messages, and start it again."
        )
    outcome = msgspec.json.decode(last, type=VerifyOutcome)
    if outcome.found is None:
        raise error_named(outcome.code)(outcome.message, hint=outcome.hint)
    return outcome.found


async def _ended(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _PATIENCE)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
