"""A child program of the server that ends with it: the tour."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Sequence

_PATIENCE = 5.0  # seconds between SIGTERM and SIGKILL


class Companion:
    """Starts once the server answers, in its own process group, so that Ctrl-C reaches only the server, which then ends this."""

    def __init__(self, command: Callable[[str], Sequence[str]]) -> None:
        self._command = command
        self.token = secrets.token_urlsafe()  # its own token, for a server with tokens; never written to disk
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, url: str) -> None:
        environ = {**os.environ, "HEADWATER_TOKEN": self.token}
        self._process = subprocess.Popen(list(self._command(url)), env=environ, stdin=subprocess.DEVNULL, start_new_session=True)

    async def end(self) -> None:
        """Send SIGTERM, wait, then kill it. Does nothing when it has ended."""
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
        """Kill it and its children at once."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
