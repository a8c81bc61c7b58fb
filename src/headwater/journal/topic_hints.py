"""The hint for a user who wants to change a topic of journals with an operation of the log."""

from __future__ import annotations

from headwater.journal.names import CONTROL, SNAPSHOTS

_INSTEAD = {
    "append": "Append events with `headwater journal append {topic} ID`.",
    "delete_before": "Records go by the setting journal.keep, once every store has copied them.",
    "compact": "Records go by the setting journal.keep, once every store has copied them.",
    "create_topic": "Create it with `headwater journal create {topic}`.",
}
_OTHERWISE = "See `headwater journal --help`."


def instead(topic: str, operation: str) -> str:
    """What to do instead of an operation of the log."""
    if topic.startswith((SNAPSHOTS, CONTROL)):
        return _OTHERWISE
    return _INSTEAD.get(operation, _OTHERWISE).format(topic=topic)
