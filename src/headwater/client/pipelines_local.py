"""The pipelines of a log that is open in this process."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from headwater.client.local import LocalLog
from headwater.client.pipelines import Asked, check
from headwater.client.problems import error_named
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Conflict, HeadwaterError, Timeout, UnknownTopic
from headwater.core.metrics import SinkReading
from headwater.log import Log
from headwater.log.opening import LogAddress, open_log
from headwater.pipeline.offsets.control import Control, offsets_topic
from headwater.pipeline.operating import answers
from headwater.pipeline.operating.desk import Desk, everything
from headwater.pipeline.operating.elsewhere import address, elsewhere
from headwater.pipeline.operating.errand import Errand, Outcome, Verb
from headwater.pipeline.values import exact

T = TypeVar("T")
_SENDING = frozenset({"step", "replay", "retry"})
_ELSEWHERE = _SENDING | {"verify"}  # they run the pipeline's file: in a process of its own
_PLAIN = re.compile(r"\^?(?:[\w .-]|\\[.-])*\$?|\.\*")  # expressions whose search takes no longer than the text is
_PATIENCE = 30.0  # seconds for any other expression: some take for ever, and Python can do nothing else meanwhile
_AT_ONCE = 4  # processes that look for others, who only may look: a hundred questions at once would take the machine's memory
_LONG = frozenset({"compact"})  # what others must not wait for
_CHANGING = frozenset({"mark", "delete", "ack", "edit", "undo", "drop", "stop", "compact"})


class _Kept:
    """A pipeline's state that is kept between two questions: only what is new is read. One thread at a time."""

    def __init__(self, generation: str, control: Control) -> None:
        self.generation, self.control, self.lock = generation, control, threading.Lock()


class LocalPipelines(Asked):
    """Answers in a thread. `who` stands in the audit; None: the user of this process."""

    def __init__(self, log: LocalLog, *, clock: Clock | None = None) -> None:
        self._log, self._clock = log, clock or SystemClock()
        self._all: dict[str, _Kept] = {}
        self._busy: set[tuple[str, str | None]] = set()
        self._looking = asyncio.Semaphore(_AT_ONCE)
        self._mutex = threading.Lock()

    async def every(self) -> list[answers.Status]:
        return await self._log.work(self._every)

    async def ask(self, pipeline: str, verb: str, kind: type[T], arguments: Mapping[str, Any], *, who: str = "") -> T:
        check(pipeline, arguments)
        if verb in _SENDING:
            with self._only(pipeline, arguments.get("sink")):
                return await self._errand(pipeline, verb, kind, arguments, who)
        if verb in _ELSEWHERE:
            async with self._looking:
                return await self._errand(pipeline, verb, kind, arguments, who)
        if verb == "messages" and not _PLAIN.fullmatch(arguments.get("namespace", ".*")):
            async with self._looking:
                return await self._searched(pipeline, kind, arguments)
        return cast(T, await self._log.work(lambda log: self._asked(log, pipeline, verb, arguments, who)))

    def readings(self) -> list[SinkReading]:
        """Where all sinks are, for the metrics. Nothing while the log is not open, or cannot be read: that is told elsewhere."""
        log = self._log.now
        if log is None:
            return []
        try:
            return [
                SinkReading(pipeline=one.pipeline, sink=at.sink, offset=at.position, lag=at.lag, stopped=at.state == "stopped")
                for one in self._every(log)
                for at in one.sinks
            ]
        except HeadwaterError:
            return []

    # -- in a thread ----------------------------------------------------------------------------------------

    def _every(self, log: Log) -> list[answers.Status]:
        def asked(name: str) -> answers.Status:
            with self._desk(log, name, "") as desk:
                return desk.status()

        return everything(log, asked)

    def _asked(self, log: Log, pipeline: str, verb: str, arguments: Mapping[str, Any], who: str) -> Any:
        own = elsewhere(log.address.path).get(pipeline)
        if own is not None:
            changes = verb in _CHANGING and not arguments.get("dry_run")
            with open_log(address(pipeline, own), read_only=not changes, clock=self._clock) as other:
                answer = getattr(Desk(other, pipeline, who=who, clock=self._clock), verb)(**arguments)
            return msgspec.structs.replace(answer, log_dir=str(own)) if isinstance(answer, answers.Status) else answer
        if verb in _LONG:
            return getattr(Desk(log, pipeline, who=who, clock=self._clock), verb)(**arguments)
        with self._desk(log, pipeline, who) as desk:
            return getattr(desk, verb)(**arguments)

    @contextmanager
    def _desk(self, log: Log, pipeline: str, who: str) -> Iterator[Desk]:
        kept = self._kept(log, pipeline)
        with kept.lock:
            yield Desk(log, pipeline, who=who, clock=self._clock, control=kept.control)

    def _kept(self, log: Log, pipeline: str) -> _Kept:
        try:
            generation = log.topic(offsets_topic(pipeline)).generation
        except UnknownTopic:
            self._all.pop(pipeline, None)
            generation = ""
        with self._mutex:
            kept = self._all.get(pipeline)
            if kept is None or kept.generation != generation:
                kept = self._all[pipeline] = _Kept(generation, Control(log, pipeline, self._clock))
            return kept

    # -- in a process ---------------------------------------------------------------------------------------

    @contextmanager
    def _only(self, pipeline: str, sink: str | None) -> Iterator[None]:
        """Whoever sends to a sink does it alone: two at once would send the same message twice. Errors: `Conflict`."""
        key = (pipeline, sink)
        if key in self._busy:
            raise Conflict(f"Somebody sends to {sink or 'a sink'} of {pipeline} now.", hint="Wait until that is done.")
        self._busy.add(key)
        try:
            yield
        finally:
            self._busy.discard(key)

    async def _searched(self, pipeline: str, kind: type[T], arguments: Mapping[str, Any]) -> T:
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._errand(pipeline, "messages", kind, arguments, "")
        except TimeoutError:
            raise Timeout(
                f"Looking for the namespace {arguments['namespace']!r} took longer than {_PATIENCE:.0f} s.",
                hint="Use a simpler expression.",
            ) from None

    async def _errand(self, pipeline: str, verb: str, kind: type[T], arguments: Mapping[str, Any], who: str) -> T:
        where, folder = await self._log.work(lambda log: self._place(log, pipeline, verb))
        errand = Errand(log=where, pipeline=pipeline, who=who, verb=cast(Verb, verb), arguments=dict(arguments))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # a file in the run's folder must not stand for one of Python's
            "-m",
            "headwater.pipeline.operating.errand",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=folder,
        )
        try:
            out, said = await process.communicate(msgspec.json.encode(errand))
        finally:
            if process.returncode is None:  # whoever asked is gone: a message under way is delivered again, as after a crash
                process.kill()
                await process.wait()
        if process.returncode != 0 or not out:
            words = said.decode("utf-8", "replace").strip().splitlines()
            raise HeadwaterError(
                f"The work for {pipeline} failed: {words[-1] if words else f'exit {process.returncode}'}.",
                hint=f"Try it on the command line: `headwater pipeline {verb} {pipeline} ...`.",
            )
        outcome = msgspec.json.decode(out, type=Outcome)
        if outcome.code:
            raise error_named(outcome.code)(outcome.message, hint=outcome.hint)
        return msgspec.json.Decoder(kind, float_hook=exact).decode(outcome.answer)

    def _place(self, log: Log, pipeline: str, verb: str) -> tuple[LogAddress, Path | None]:
        """The log that holds the pipeline, and the folder where its file must run."""
        own = elsewhere(log.address.path).get(pipeline)
        where = log.address if own is None else address(pipeline, own)
        return where, cast(Path | None, self._asked(log, pipeline, "folder", {}, "")) if verb in _ELSEWHERE else None
