"""What users set: of a namespace in `[wal.NAME]`, and of a region when it is created."""

from __future__ import annotations

from typing import Annotated

import msgspec

from headwater.core.errors import BadInput
from headwater.core.sections import NamedSection
from headwater.core.settings import Note
from headwater.core.units import Duration, Size
from headwater.log.json_form import read_settings, show_settings
from headwater.log.record import TopicSettings
from headwater.wal.layout import EMPTY, KEY_LENGTH, OVERHEAD

_EXAMPLES = {"segment": "64MiB", "period": "1h", "max_record": "16MiB", "disposal": "delete"}
_MOST_COPIES = 32767  # Kafka counts them in 16 bits
_LARGEST = 48 << 20  # bytes of a record, at the most
ROOM = KEY_LENGTH + OVERHEAD + len(EMPTY)  # bytes of a record beside its only payload
_LEAST = 1024  # bytes of a record: a snapshot has at least a table in each


class WalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a namespace looks after its regions."""

    clean_period: Annotated[Duration, Note("How long after a clean of its regions the next one comes.", '"1h"', 1)] = Duration(3_600_000)
    snapshot_marks: Annotated[int, Note("A region's state is stored after so many marks.", "1000", 1)] = 1000
    snapshot_every: Annotated[Duration, Note("A region's state is stored after so long, where something has changed.", '"60s"', 1)] = (
        Duration(60_000)
    )
    pin_limit: Annotated[
        Size | None,
        Note("How much of a log idle tables may pin; above it, a clean moves them. Not set: a table is never moved.", '"1GiB"'),
    ] = None


WAL_SECTION = NamedSection("wal", WalSettings)


class RegionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is fixed for a region when it is created; what is left out is as configured for topics.

    `segment`: the size at which its log closes a segment; `period`: hour, day or month of the UTC calendar, or a duration, at whose end it
    does; only closed ones can be removed. `max_record`: the largest payload of a write; several take 4 bytes more for each, and 4 together.
    `disposal`: what becomes of the files of removed segments; `delete`, `reset`, `truncate`, or `secure-` and one of these. `replication`:
    on how many brokers of Kafka a new region is kept; segment files are kept once.
    """

    segment: str | None = None
    period: str | None = None
    max_record: str | None = None
    disposal: str | None = None
    replication: int | None = None

    def topic_settings(self, usual: TopicSettings, known: TopicSettings | None = None) -> TopicSettings:
        """Those of its topics, whose records have room for payloads of `max_record` bytes.

        `known`: those of a region that is there. An older version made its records of `max_record` bytes with all that they have: so they
        stay.

        Errors: `BadInput` for a value without its unit, and for one that no topic can have.
        """
        written = {name: _text(name, value) for name in _EXAMPLES if (value := getattr(self, name)) is not None}
        wanted = read_settings({**show_settings(usual), **written})
        if "max_record" in written and wanted.max_record < _LEAST:
            raise BadInput(
                f"A region cannot do with records of {wanted.max_record} bytes.", hint=f"Give {_LEAST} bytes or more, such as 64KiB."
            )
        if known is not None and known.max_record == wanted.max_record:
            return wanted
        return msgspec.structs.replace(wanted, max_record=min(wanted.max_record + ROOM, _LARGEST))

    @property
    def copies(self) -> int:
        """As `Log.create_topic` takes them: 0 where nothing is said. Errors: `BadInput`."""
        wanted: object = self.replication
        if wanted is None:
            return 0
        if type(wanted) is not int or not 1 <= wanted <= _MOST_COPIES:
            raise BadInput(f"replication={wanted!r} is no number of copies.", hint=f"Give 1 to {_MOST_COPIES}, such as replication=3.")
        return wanted

    @property
    def given(self) -> bool:
        """Whether anything is set that a region which is there can be compared with."""
        return any(getattr(self, name) is not None for name in _EXAMPLES)


def shown_settings(settings: TopicSettings) -> dict[str, str]:
    """The settings of a region's topic as those of the region. A topic of 48 MiB, or one that somebody has made, has less room.

    Records of whole KiB, below 48 MiB, are those of a region that an older version made: `max_record` is theirs, as it was given.
    """
    if settings.max_record % 1024 == 0 and settings.max_record < _LARGEST:
        return show_settings(settings)
    return show_settings(msgspec.structs.replace(settings, max_record=max(1, settings.max_record - ROOM)))


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{name}={value!r} is no text.", hint=f'Write it such as {name}="{_EXAMPLES[name]}".')
    return value
