"""What is asked of projections: the requests, and their answers."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from headwater.core.errors import BadInput
from headwater.journal.projection import check_projection_name
from headwater.journal.requests import JournalsRequest
from headwater.wire.operation import DryRun, Why, described

Count = Annotated[int, msgspec.Meta(ge=0)]
ProjectionName = Annotated[str, described("The name of the projection.", pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class ProjectionRequest(JournalsRequest, frozen=True, kw_only=True):
    """A projection."""

    name: ProjectionName

    def check(self) -> None:
        super().check()
        check_projection_name(self.name)


class ResetProjection(ProjectionRequest, frozen=True, kw_only=True):
    """A projection, and why it is made anew."""

    why: Why = ""
    dry_run: DryRun = False


class DeadEventPlace(ProjectionRequest, frozen=True, kw_only=True):
    """A dead event by its place."""

    partition: Annotated[int, described("The partition.", least=0)]
    offset: Annotated[int, described("The offset of the event's record.", least=0)]
    number: Annotated[int, described("The number of the event.", least=1)]

    def check(self) -> None:
        super().check()
        for field, least in (("partition", 0), ("offset", 0), ("number", 1)):
            number = getattr(self, field)
            if not isinstance(number, int) or isinstance(number, bool) or number < least:
                raise BadInput(f"{number!r:.40} is no {field}.", hint=f"Give {least} or more.")


class DecideDeadEvent(DeadEventPlace, frozen=True, kw_only=True):
    """A dead event, and why."""

    why: Why = ""
    dry_run: DryRun = False


class RetryDeadEvent(DecideDeadEvent, frozen=True, kw_only=True):
    """A dead event that the handler gets again, and why."""


class DropDeadEvent(DecideDeadEvent, frozen=True, kw_only=True):
    """A dead event that the handler never gets, and why."""


class ShownProjectionPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of a projection. `offset`: the first record that is not done. `lag`: how many records lie before the log's end.
    `error`: why it stands. `at`: when it was told last."""

    partition: Count
    offset: Count
    end: Count
    lag: Count
    dead: Count
    error: str = ""
    at: str | int | None = None


class ShownProjection(msgspec.Struct, frozen=True, kw_only=True):
    """A projection. `positions`: where they are kept: `records`, `sqlite` or `postgresql`. `lag`: the records that are not done, of all
    partitions. `resets`: it was reset, and no run has begun anew yet."""

    topic: str
    name: str
    positions: str
    on_error: str
    lag: Count
    dead: Count
    standing: Count
    resets: bool = False
    partitions: list[ShownProjectionPartition] = []


class ShownDeadEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a handler could not take. `state`: `stops` its partition; `failed`; or `waits` for an earlier one of its journal."""

    topic: str
    name: str
    partition: Count
    offset: Count
    number: int
    id: str
    state: str
    error: str = ""
    attempts: Count = 0
    at: str | int | None = None


class DeadEventContent(ShownDeadEvent, frozen=True, kw_only=True):
    """A dead event with what it holds; None where the log has deleted its record, or the journal was erased."""

    event: dict[str, Any] | None = None


class ProjectionResets(msgspec.Struct, frozen=True, kw_only=True):
    """A projection is made anew by whoever runs it. `records`: how many it reads for that. `dead`: events that are forgotten."""

    topic: str
    name: str
    records: Count
    dead: Count
    dry_run: bool = False


class DeadEventDecided(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a dead event, once a run of the projection has seen it."""

    topic: str
    name: str
    partition: Count
    offset: Count
    number: int
    verb: str
    dry_run: bool = False
