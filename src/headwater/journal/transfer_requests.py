"""What is asked to export and import journals, and what is answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from headwater.core.errors import BadInput
from headwater.journal.names import check_id
from headwater.journal.requests import JournalsRequest, texts_of
from headwater.wire.operation import DryRun, described, placed

Count = Annotated[int, msgspec.Meta(ge=0)]


class ExportJournals(JournalsRequest, frozen=True, kw_only=True):
    """Which journals."""

    ids: Annotated[str | None, described('Only these journals: with commas between, or ["a", "b"]. Left out: all of the topic.')] = None

    def check(self) -> None:
        super().check()
        for id in self.wanted_ids():
            check_id(id)

    def wanted_ids(self) -> frozenset[str]:
        return texts_of(self.ids, "ids")


class ImportLines(JournalsRequest, frozen=True, kw_only=True):
    """Lines of an export."""

    first_line: Annotated[int, placed("query", "The number of the first line, which errors count from.", least=1)] = 1
    lines: Sequence[bytes] = ()
    dry_run: DryRun = False

    def check(self) -> None:
        super().check()
        if not isinstance(self.first_line, int) or isinstance(self.first_line, bool) or self.first_line < 1:
            raise BadInput(f"first_line={self.first_line!r:.40} is no number of a line.", hint="Give 1 or more.")


class ImportedLines(msgspec.Struct, frozen=True, kw_only=True):
    """What an import did. `appends`, `events`: that were appended. `there`: lines whose events, or heads, were there already."""

    lines: Count
    appends: Count
    events: Count
    there: Count
    dry_run: bool = False
