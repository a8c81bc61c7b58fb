"""The door for plain code. `blocking.pyi` beside this file has its types; `blocking_door` does the work."""

from __future__ import annotations

from headwater.client.blocking_door import Blocking, open_blocking

__all__ = ["Blocking", "open_blocking"]
