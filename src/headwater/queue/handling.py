"""What a function that handles rows may raise, and how long a failed row waits for its next run."""

from __future__ import annotations

from functools import lru_cache
from random import Random

import msgspec

from headwater.core.errors import BadInput
from headwater.core.units import Duration


class Retry(Exception):
    """Raised by a function that handles rows: run the row again, after so long. `after`: such as "30s"; None: as the backoff says."""

    def __init__(self, reason: str = "", *, after: str | None = None) -> None:
        super().__init__(reason or "It is to be tried again.")
        self.after = None if after is None else duration_of(after, "after")


class GiveUp(Exception):
    """Raised by a function that handles rows: never run the row again. It goes to the dead list with the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class Backoff(msgspec.Struct, frozen=True):
    """How long a failed row waits: `first`, then twice as long after each failure, up to `most`; shortened at random by up to a half.

    Rows that failed together, because a server was away, thus do not all come back at once. Errors: `BadInput` for what is no duration.
    """

    first: str = "1s"
    most: str = "10m"

    def __post_init__(self) -> None:
        if duration_of(self.first, "first") > duration_of(self.most, "most"):
            raise BadInput(f"The first wait {self.first} is longer than the longest, {self.most}.", hint="Give a shorter `first`.")

    def wait_ms(self, failures: int, random: Random) -> int:
        """Milliseconds before the next run of a row that has failed so often, this failure included."""
        longest = min(Duration.parse(self.most), Duration.parse(self.first) << min(max(failures, 1) - 1, 40))
        return int(longest * random.uniform(0.5, 1.0))


def duration_of(value: object, what: str) -> int:
    """Milliseconds of a duration such as "30s". Errors: `BadInput` for a number without a unit, and for what is no text."""
    if isinstance(value, Duration):
        return int(value)
    if not isinstance(value, str):
        raise BadInput(f"{what}={value!r:.60} is no duration.", hint=f'Write it with its unit, such as {what}="30s".')
    return _milliseconds(value)


@lru_cache(maxsize=1024)  # the same few are given with every call, and parsing one takes longer than the rest of a claim
def _milliseconds(text: str) -> int:
    return int(Duration.parse(text))
