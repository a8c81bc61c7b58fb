"""Performs an operation in a new process that runs a user's pipeline file in the folder of its last run.

A server must not run a pipeline's file in its own process: relative paths in it would name other files than in the run, so that a message
would count as taken by a sink that never got it, and the file could change the server's process. So a server and the Python door start
`python -m headwater.client.subprocess_call` in the run's folder. The call comes on its standard input; it writes progress, line by line,
and then the outcome to its standard output. A search by a regular expression runs here, too: a process can be killed, a thread cannot.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from headwater.core.errors import HeadwaterError
from headwater.log.address import LogAddress
from headwater.wire import json
from headwater.wire.operation import Operation, R, Reply
from headwater.wire.problems import error_named
from headwater.wire.progress import heard_by, report
from headwater.wire.request import shape_of

A = TypeVar("A")


class SubprocessCall(msgspec.Struct, frozen=True, kw_only=True):
    """An operation by its id, with its request. `subject`: the first name of its address."""

    log: LogAddress
    operation: str
    request: msgspec.Raw
    subject: str
    who: str

    @classmethod
    def of(cls, log: LogAddress, operation: Operation[R, Any], request: R, who: str) -> Self:
        first = next(iter(shape_of(operation).path.values()), None)
        subject = "" if first is None else str(getattr(request, first.field))
        return cls(log=log, operation=operation.id, request=msgspec.Raw(json.encode(request)), subject=subject, who=who)


class CallOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The answer as JSON, or an error."""

    answer: msgspec.Raw = msgspec.Raw(b"null")
    code: str = ""
    message: str = ""
    hint: str = ""


async def performed(call: SubprocessCall, operation: Operation[R, A], folder: Path | None) -> A:
    """Perform a call in a new process in a folder; return its answer. Errors: those of the operation."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # a file in the run's folder must not shadow a module of Python
        "-m",
        "headwater.client.subprocess_call",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    try:
        process.stdin.write(msgspec.json.encode(call))
        process.stdin.write_eof()
        out, stderr = await asyncio.gather(_outcome(process.stdout), process.stderr.read())
        await process.wait()
    finally:
        if process.returncode is None:  # the caller is gone: the sink gets a message under way again, as after a crash
            process.kill()
            await process.wait()
    if process.returncode != 0 or not out:
        words = stderr.decode("utf-8", "replace").strip().splitlines()
        raise HeadwaterError(
            f"The process for {operation.part} {operation.name} failed: {words[-1] if words else f'exit {process.returncode}'}.",
            hint=f"Try it on the command line: `headwater {operation.part} {operation.name} {call.subject} ...`.",
        )
    outcome = msgspec.json.decode(out, type=CallOutcome)
    if outcome.code:
        raise error_named(outcome.code)(outcome.message, hint=outcome.hint)
    assert operation.answer is not None
    return json.decoder(operation.answer)(bytes(outcome.answer))


async def _outcome(output: asyncio.StreamReader) -> bytes:
    """The last line of the process. Reports the lines before it, pairs of numbers, as progress."""
    rest = b""
    while chunk := await output.read(1 << 16):
        rest += chunk
        while rest.startswith(b"[") and b"\n" in rest:
            line, _, rest = rest.partition(b"\n")
            report(*msgspec.json.decode(line, type=tuple[int, int]))
    return rest


def done(call: SubprocessCall) -> CallOutcome:
    """Perform it in this process. Opens the log read-only for read-only calls and dry runs."""
    from headwater import parts
    from headwater.core.clock import SystemClock
    from headwater.log.opening import open_log
    from headwater.wire.part import load

    operation = parts.operation_named(call.operation)
    request = json.decoder(operation.request)(bytes(call.request))
    try:
        with open_log(call.log, read_only=not operation.changes or getattr(request, "dry_run", False)) as log:
            performer = load(parts.part_named(operation.part).performs)(log=None, clock=SystemClock())
            answer = performer.perform(log, operation, request, call.who)
    except HeadwaterError as error:
        return CallOutcome(code=error.code, message=error.message, hint=error.hint)
    return CallOutcome(answer=msgspec.Raw(json.encode(answer.value if isinstance(answer, Reply) else answer)))


class _Teller:
    """Writes progress, at most one line per percent."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write, self._told, self._mutex = write, (-1, -1), threading.Lock()

    def __call__(self, done: int, total: int) -> None:
        with self._mutex:
            before, of = self._told
            if total == of and done != total and done - before < max(1, (total or before) // 100):
                return
            self._told = (done, total)
            self._write(b"[%d,%d]\n" % (done, total))


def main() -> None:
    """Reads a call, writes progress and the outcome. Sends the output of the user's file to standard error."""
    call = msgspec.json.decode(sys.stdin.buffer.read(), type=SubprocessCall)
    answers = os.dup(1)
    os.dup2(2, 1)
    with open(answers, "wb", buffering=0) as out:
        with heard_by(_Teller(out.write)):
            outcome = done(call)
        with open(out.fileno(), "wb", closefd=False) as whole:
            whole.write(json.encode(outcome))


if __name__ == "__main__":
    main()
