"""The log that the `log` commands work on. They open it themselves, also beside a running server: several processes may use one
directory by design, and a look must not depend on a server that is the very thing in trouble."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.cli.options import settings_from
from headwater.core.errors import BadInput, NotFound
from headwater.core.settings import Settings
from headwater.log import Log
from headwater.log.opening import address_of, open_log
from headwater.log.record import Topic


@contextmanager
def opened(data: Path | None, config: Path | None, *, read_only: bool = True, creates: bool = False) -> Iterator[tuple[Log, Settings]]:
    """The configured log and the settings.

    Errors: `NotFound` for an embedded data directory that does not exist, unless the command `creates` it: a typo must not look like
    an empty log.
    """
    settings = settings_from(data, config).settings
    if settings.log.engine == "embedded" and not creates and not settings.data.exists():
        raise NotFound(
            f"There is no data directory {settings.data}.",
            hint="Name it with --data; `headwater log create TOPIC` or `headwater serve` makes a new one.",
        )
    # Absolute: sending to a sink by hand goes to the folder where the pipeline was run, and the log must still be found from there.
    with open_log(address_of(settings, settings.data.absolute()), read_only=read_only) as log:
        yield log, settings


def only_partition(topic: Topic, partition: int | None, why: str) -> int:
    """The partition that was named, or the only one. Errors: `BadInput` when there are several and none was named."""
    if partition is not None:
        return partition
    if topic.partitions > 1:
        raise BadInput(f"Topic {topic.name} has {topic.partitions} partitions; {why}.", hint="Name one with --partition N.")
    return 0
