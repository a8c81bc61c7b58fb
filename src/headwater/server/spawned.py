"""Runs `headwater serve` as a subprocess, for the tour and for tests."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from headwater.client.presence import Serving, serving
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Unavailable

_PATIENCE = 60.0  # seconds: a busy machine may take long to start a process


class SpawnedServer:
    """Starts on a free port; its output goes to files beside its data. As a context manager it starts the server and ends it.

    `popen` starts the process; tests may give another one than `subprocess.Popen`.
    """

    popen: ClassVar[Callable[..., subprocess.Popen[bytes]]] = subprocess.Popen

    def __init__(
        self, data: Path, *, options: Sequence[str] = ("--port", "0"), environ: Mapping[str, str] | None = None, clock: Clock | None = None
    ) -> None:
        self.data, self._options, self._environ = data, options, dict(os.environ if environ is None else environ)
        self._clock = clock or SystemClock()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> Serving:
        """Returns once it answers. Errors: `Unavailable` with its output when it ended instead, or took too long."""
        self.data.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "headwater.cli", "serve", "--data", str(self.data), *self._options]
        with (self.data / "serve.out").open("ab") as out, (self.data / "serve.err").open("ab") as err:
            self._process = type(self).popen(command, env=self._environ, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        deadline, never = self._clock.monotonic() + _PATIENCE, threading.Event()
        while self._process.poll() is None and self._clock.monotonic() < deadline:
            server = serving(self.data)
            if server is not None and server.pid == self._process.pid:
                self.url = server.url
                return server
            self._clock.wait(never, 0.01)
        code = self._process.poll()
        self.kill()
        raise Unavailable(
            f"A server for {self.data} did not start (exit {code}): {self.errors()}", hint="See serve.err in the data directory."
        )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, seconds: float = _PATIENCE) -> int:
        """Its exit status, once it has ended."""
        assert self._process is not None
        return self._process.wait(seconds)

    def stop(self) -> int:
        """End it cleanly; return its exit status."""
        assert self._process is not None
        self._process.terminate()
        return self.wait()

    def kill(self) -> None:
        """Kill it with signal 9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def output(self) -> str:
        return (self.data / "serve.out").read_text()

    def errors(self) -> str:
        return (self.data / "serve.err").read_text()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
