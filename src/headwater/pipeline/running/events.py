"""What a run tells while it goes: boot, notice, metrics, error, exit. To a file, an address, or whoever listens."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

Kind = Literal["boot", "notice", "metrics", "error", "exit"]
Listener = Callable[["RunEvent"], None]


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event. `path` is the source or sink that it is about, below the source: `shop/search`."""

    kind: Kind
    at: int  # milliseconds since 1970
    pipeline: str
    path: str = ""
    version: str = ""
    details: dict[str, Any] = {}


def to_file(path: Path) -> Listener:
    """A line of JSON for each event."""
    lock = threading.Lock()

    def write(event: RunEvent) -> None:
        with lock, path.open("ab") as out:
            out.write(msgspec.json.encode(event) + b"\n")

    return write


def to_address(url: str) -> Listener:
    """POST each event as JSON. An address that does not answer is told of once in the log, and never stops the run."""
    import httpx2

    client = httpx2.Client(timeout=5.0)
    warned: list[bool] = []

    def send(event: RunEvent) -> None:
        try:
            client.post(url, content=msgspec.json.encode(event), headers={"Content-Type": "application/json"}).raise_for_status()
        except httpx2.HTTPError as error:
            if not warned:
                warned.append(True)
                logging.getLogger("headwater.pipeline").warning("Events cannot be sent to the given address: %s", type(error).__name__)

    return send
