"""Spark, started when it is first needed. Importing this starts nothing and imports no pyspark."""

from __future__ import annotations

import os
import re
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from headwater.core.errors import Unsupported
from headwater.core.settings import SparkSettings
from headwater.log.address import LogAddress
from headwater.spark.starting import running, session

if TYPE_CHECKING:
    from headwater.spark.ranges import Runner


class LazySpark:
    """One log's `Runner`, made at the first use by whichever thread comes first. Safe for several threads."""

    def __init__(self, address: LogAddress, settings: SparkSettings, *, name: str = "headwater") -> None:
        self._address, self._settings, self._name = address, settings, name
        self._lock = threading.Lock()
        self._gate = threading.Lock()
        self._runner: Runner | None = None
        self._starting: threading.Thread | None = None
        self._closed = threading.Event()
        self.cores = cores(settings.master)
        self.allowed = settings.start != "never"
        self.local = settings.master.startswith("local")

    def ready(self) -> bool:
        """Whether Spark can take work now. The first call begins its start, which takes seconds: until then this process works.

        With `spark.start` set to eager the call waits for Spark. Errors: as `runner`.
        """
        if self._settings.start == "eager" or running() is not None:
            self.runner()
            return True
        with self._gate:
            if self._starting is None and self._runner is None:
                self._starting = threading.Thread(target=self._start_quietly, name="headwater spark start", daemon=True)
                self._starting.start()
            return self._starting is None or not self._starting.is_alive()

    @property
    def started(self) -> bool:
        """Whether there is a runner, whose jobs may be under way."""
        return self._runner is not None

    def runner(self) -> Runner:
        """The runner; starts Spark where it does not run. Errors: `Unavailable`; `Unsupported` where it may not be started."""
        if not self.allowed:
            raise Unsupported("This needs Spark, which is not started here.", hint='Set spark.start = "lazy".')
        with self._lock:
            if self._runner is None:
                from headwater.spark.ranges import Runner

                self._runner = Runner(session(self._settings, name=self._name), self._address)
            return self._runner

    def close(self) -> None:
        """Close the runner. The session stays for others in this process. Does not wait for a start under way."""
        self._closed.set()
        if self._starting is not None and self._starting.is_alive() and threading.current_thread() is not self._starting:
            return
        with self._lock:
            if self._runner is not None:
                self._runner.close()
                self._runner = None

    def _start_quietly(self) -> None:
        with suppress(Exception):  # `runner` tries again, and raises the error
            self.runner()
        if self._closed.is_set():
            self.close()


def cores(master: str) -> int:
    """How many tasks run at once: what a local master says, else four, which a cluster's own setting shares out."""
    match = re.fullmatch(r"local\[(\*|\d+)(?:,\s*\d+)?\]", master)
    if match is None:
        return 1 if master == "local" else 4
    return os.cpu_count() or 1 if match[1] == "*" else int(match[1])
