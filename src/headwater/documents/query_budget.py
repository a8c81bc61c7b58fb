"""What a query may use: reads of the store, rows that it does not return, and time. Every error says the numbers and what would help."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from headwater.core.clock import Clock
from headwater.core.document_errors import QueryCountLimited, QueryLimited, QueryTimeout, SkippedRowsLimited

E = TypeVar("E", bound=QueryLimited)
DEFAULT_SIZE = 100
DEFAULT_SKIP_MAX = 10_000


class QueryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of every query. `skip_max`: where the query says none."""

    size: int = DEFAULT_SIZE
    most_size: int = 10_000
    skip_max: int = DEFAULT_SKIP_MAX
    max_reads: int = 20
    seconds: float = 15.0


class QueryBudget:
    """Counts what a query uses. One for each query; all its attempts and passes share the reads and the time."""

    def __init__(self, limits: QueryLimits, clock: Clock, *, uri: str, skip_max: int, advice: Callable[[], str] = str) -> None:
        """`advice`: says what would help, in a sentence."""
        self.limited = True
        """Whether rows and reads are limited; the time always is."""
        self.uri, self.skip_max, self._advice = uri, skip_max, advice
        self._limits, self._clock = limits, clock
        self._deadline = clock.monotonic() + limits.seconds
        self.reads = 0
        self.examined = 0
        self.returned = 0
        self.rejected = 0
        self.failed = 0

    def begin(self) -> None:
        """Begin another pass over rows: those of the last do not count any more."""
        self.examined = self.returned = self.rejected = self.failed = 0

    @property
    def skipped(self) -> int:
        """Rows that were read and are not returned."""
        return self.examined - self.returned

    def read(self, reads: int = 1) -> None:
        """Count reads of the store before they are made. Errors: `QueryCountLimited`, `QueryTimeout`."""
        if self.limited and self.reads + reads > self._limits.max_reads:
            raise self._error(QueryCountLimited, f"would take more than {self._limits.max_reads} reads of the store")
        self.reads += reads
        self.check_time()

    def check_time(self) -> None:
        """Errors: `QueryTimeout`."""
        if self._clock.monotonic() >= self._deadline:
            raise self._error(QueryTimeout, f"takes longer than {self._limits.seconds:g} s")

    def spent(self) -> bool:
        """Whether no row more may be passed over."""
        return self.limited and self.skipped > self.skip_max

    def refuse(self) -> SkippedRowsLimited:
        """The error of a query that passed over too many rows."""
        return self._error(SkippedRowsLimited, f"passes over more than {self.skip_max} rows that it does not return")

    def _error(self, kind: type[E], problem: str) -> E:
        numbers = (
            f"{self.examined} rows read in {self.reads} reads, {self.returned} of them fit, {self.failed} have no value for the filter"
        )
        return kind(f"The query of {self.uri} {problem} ({numbers}).", hint=self._advice())
