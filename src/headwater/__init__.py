"""headwater: one log at the source; everything downstream is rebuilt from it.

>>> import headwater
>>> with headwater.open_blocking("./data", create=True) as hw:
...     hw.log.create_topic("greetings")
...     hw.log.append("greetings", 0, [headwater.Record(key=b"en", value=b"hello")])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.client.blocking import Blocking, open_blocking
    from headwater.client.door import Headwater, open
    from headwater.client.projection_runner import run_projection
    from headwater.core.document_errors import (
        BadFilter,
        BadPath,
        CollectionPut,
        DocumentNotFound,
        NotMatched,
        QueryCountLimited,
        QueryLimited,
        QueryTimeout,
        SkippedRowsLimited,
        UnfitBody,
        UnknownIndex,
        ViewModification,
    )
    from headwater.core.errors import (
        AlreadyExists,
        BadBounds,
        BadConfig,
        BadInput,
        BadMethod,
        BadType,
        Busy,
        Cancelled,
        Closed,
        Conflict,
        Damaged,
        Denied,
        Differs,
        DiskFull,
        Erased,
        Fenced,
        Forbidden,
        HeadTooLarge,
        HeadwaterError,
        KeyReused,
        LogGap,
        MetaLost,
        MissingKey,
        NewerFormat,
        NotFound,
        NotOwner,
        OffsetGone,
        OutcomeUnknown,
        OwnedTopic,
        Paused,
        ReadOnly,
        RegionNotFound,
        Rejected,
        StaleClaim,
        Stopped,
        TaskFailed,
        Timeout,
        TooLarge,
        TooSlow,
        Unavailable,
        Undecryptable,
        UnknownAdaptor,
        UnknownEvent,
        UnknownJournal,
        UnknownPartition,
        UnknownPipeline,
        UnknownQueue,
        UnknownSink,
        UnknownTable,
        UnknownTopic,
        Unreachable,
        UnreadableRecord,
        Unsupported,
        Untrusted,
        WrongEngine,
        WrongExpected,
    )
    from headwater.journal.event import Event
    from headwater.journal.projection import Projection
    from headwater.log.record import Bounds, Compacted, Mode, Record, Topic, TopicSettings
    from headwater.queue.settings import QueueSettings
    from headwater.wal.settings import RegionSettings

__all__ = [
    "AlreadyExists",
    "BadBounds",
    "BadConfig",
    "BadFilter",
    "BadInput",
    "BadMethod",
    "BadPath",
    "BadType",
    "Blocking",
    "Bounds",
    "Busy",
    "Cancelled",
    "Closed",
    "CollectionPut",
    "Compacted",
    "Conflict",
    "Damaged",
    "Denied",
    "Differs",
    "DiskFull",
    "DocumentNotFound",
    "Erased",
    "Event",
    "Fenced",
    "Forbidden",
    "HeadTooLarge",
    "Headwater",
    "HeadwaterError",
    "KeyReused",
    "LogGap",
    "MetaLost",
    "MissingKey",
    "Mode",
    "NewerFormat",
    "NotFound",
    "NotMatched",
    "NotOwner",
    "OffsetGone",
    "OutcomeUnknown",
    "OwnedTopic",
    "Paused",
    "Projection",
    "QueryCountLimited",
    "QueryLimited",
    "QueryTimeout",
    "QueueSettings",
    "ReadOnly",
    "Record",
    "RegionNotFound",
    "RegionSettings",
    "Rejected",
    "SkippedRowsLimited",
    "StaleClaim",
    "Stopped",
    "TaskFailed",
    "Timeout",
    "TooLarge",
    "TooSlow",
    "Topic",
    "TopicSettings",
    "Unavailable",
    "Undecryptable",
    "UnfitBody",
    "UnknownAdaptor",
    "UnknownEvent",
    "UnknownIndex",
    "UnknownJournal",
    "UnknownPartition",
    "UnknownPipeline",
    "UnknownQueue",
    "UnknownSink",
    "UnknownTable",
    "UnknownTopic",
    "Unreachable",
    "UnreadableRecord",
    "Unsupported",
    "Untrusted",
    "ViewModification",
    "WrongEngine",
    "WrongExpected",
    "open",
    "open_blocking",
    "run_projection",
]
_MODULES = {
    "Blocking": "headwater.client.blocking",
    "open_blocking": "headwater.client.blocking",
    "Projection": "headwater.journal.projection",
    "run_projection": "headwater.client.projection_runner",
    "Event": "headwater.journal.event",
    "QueueSettings": "headwater.queue.settings",
    "RegionSettings": "headwater.wal.settings",
    "Headwater": "headwater.client.door",
    "open": "headwater.client.door",
    **dict.fromkeys(
        (
            "BadFilter",
            "BadPath",
            "CollectionPut",
            "DocumentNotFound",
            "NotMatched",
            "QueryCountLimited",
            "QueryLimited",
            "QueryTimeout",
            "SkippedRowsLimited",
            "UnfitBody",
            "UnknownIndex",
            "ViewModification",
        ),
        "headwater.core.document_errors",
    ),
    **dict.fromkeys(("Bounds", "Compacted", "Mode", "Record", "Topic", "TopicSettings"), "headwater.log.record"),
}
_ERRORS = "headwater.core.errors"  # of every other name


def __getattr__(name: str) -> Any:
    """Imports a name at its first use: a command handles signals before it loads anything that takes long."""
    if name not in __all__:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_MODULES.get(name, _ERRORS)), name)
    return value


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__})
