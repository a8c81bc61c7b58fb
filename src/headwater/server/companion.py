"""A program that runs beside the server and ends with it: the tour."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Sequence

_PATIENCE = 5.0  # seconds from asking it to end to making it


class Companion:
    """Started once the server answers, in a process group of its own, so that Ctrl-C reaches the server alone and it ends the rest."""

    def __init__(self, command: Callable[[str], Sequence[str]]) -> None:
        self._command = command
        self.token = secrets.token_urlsafe()  # a key of its own to a server that asks for one; never written anywhere
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, url: str) -> None:
        environ = {**os.environ, "HEADWATER_TOKEN": self.token}
        self._process = subprocess.Popen(list(self._command(url)), env=environ, stdin=subprocess.DEVNULL, start_new_session=True)

    async def end(self) -> None:
        """Ask it to end, wait, then make it end. Does nothing when it has ended."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(process.wait, _PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            await asyncio.to_thread(process.wait)

    def kill(self) -> None:
        """End it and everything that it has started, at once."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
