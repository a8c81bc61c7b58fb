"""The door, the Python API: the same objects over a directory and over HTTP, for asyncio and for blocking code."""

from __future__ import annotations

from headwater.client.blocking import Blocking, open_blocking
from headwater.client.door import Headwater, open
from headwater.client.log import AsyncLog

__all__ = ["AsyncLog", "Blocking", "Headwater", "open", "open_blocking"]
