"""A filter that says when it is asked, and waits until a test lets it answer: asked on the event loop, it would wait for ever."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from tests.until import LONGEST_S

from headwater.documents.filter.evaluate import Filter, compile_filter


class WaitingFilter(Filter):
    """One test at a time."""

    began: ClassVar[threading.Event] = threading.Event()
    turn: ClassVar[threading.Event] = threading.Event()

    @classmethod
    def compiled(cls, text: str) -> Self:
        return cls(text, compile_filter(text).tree)

    @classmethod
    def begin(cls) -> None:
        """From here on it waits again."""
        cls.began.clear()
        cls.turn.clear()

    def accepts(self, body: Mapping[str, Any]) -> bool:
        self.began.set()
        assert self.turn.wait(LONGEST_S), "The loop did not run while the filter was asked."
        return super().accepts(body)
