"""The errors of a run that no message has caused: of the reader, and of sinks that could not go on."""

from __future__ import annotations

from headwater.core.errors import Fenced, HeadwaterError


class RunProblems:
    """By the sink that it ended, or `SOURCE`, the newest error. A sink that an operator revives has none any more."""

    def __init__(self) -> None:
        self._errors: dict[str, HeadwaterError] = {}

    def add(self, whose: str, error: HeadwaterError) -> None:
        self._errors[whose] = error

    def forget(self, whose: str) -> None:
        self._errors.pop(whose, None)

    def error(self) -> HeadwaterError | None:
        """The first error, whose hint names the others: whoever mends only the first would meet the next one in the next run.

        Errors of a run that a newer one has ended say nothing of their sinks, and are left out.
        """
        first, *others = self._errors.values() or [None]
        if first is None or isinstance(first, Fenced):
            return first
        messages = {first.message}
        for other in others:
            if other is not None and other.message not in messages and not isinstance(other, Fenced):
                messages.add(other.message)
                first.hint = "\n  ".join(text for text in (first.hint, other.message, other.hint) if text)
        return first
