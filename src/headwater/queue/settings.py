"""What users give of a queue's settings in Python, when they create it and later: `QueueSettings(lease="60s", max_timeouts=5)`."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from msgspec import UNSET, UnsetType

from headwater.core.disposal import Disposal
from headwater.core.units import Duration, Size

GivenDuration = str | timedelta | Duration
GivenSize = str | Size


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a call sets, also those that it sets back to the usual value. One that is left out stays as it is; on a queue that
    is made, as `[queue.NAME]` says. `EffectiveSettings` tells what each means."""

    lease: GivenDuration | UnsetType = UNSET
    max_timeouts: int | UnsetType = UNSET
    max_attempts: int | UnsetType = UNSET
    max_delay: GivenDuration | UnsetType = UNSET
    clock_ahead: GivenDuration | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    lane_concurrency: int | UnsetType = UNSET
    concurrency: int | UnsetType = UNSET
    rate: int | UnsetType = UNSET
    rate_period: GivenDuration | UnsetType = UNSET
    memory: GivenSize | UnsetType = UNSET
    on_dead: str | UnsetType = UNSET
    results: GivenDuration | UnsetType = UNSET
    unique_for: GivenDuration | UnsetType = UNSET
    period: str | timedelta | UnsetType = UNSET
    disposal: Disposal | UnsetType = UNSET
    segment: GivenSize | UnsetType = UNSET
    max_record: GivenSize | UnsetType = UNSET
    region: int | UnsetType = UNSET
    replication: int | UnsetType = UNSET

    @property
    def given(self) -> dict[str, object]:
        """Those that are set, by name."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in values.items() if value is not UNSET}
