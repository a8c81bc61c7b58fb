"""Names of journals' topics, and ids of journals."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.core.errors import BadConfig, BadInput
from headwater.log.record import check_new_topic_name

SNAPSHOTS = "snapshot-"
CONTROL = "control-"
LONGEST_ID = 4096
"""Bytes of UTF-8."""
_LONGEST_TOPIC = 249 - len(SNAPSHOTS)


def topic_of(name: str, prefixes: Sequence[str] = ("journal",)) -> str:
    """The topic of the journals `name`: `journal-bank` for `bank`. A name that begins with one of the prefixes stays as it is.

    `prefixes`: the setting `journal.prefixes`; a new name gets the first one. Errors: `BadInput` for what can be no name of a topic,
    `BadConfig` without prefixes.
    """
    if not prefixes:
        raise BadConfig("The setting journal.prefixes is empty: no topic holds journals.", hint='Set it such as ["journal"].')
    if not isinstance(name, str) or not name:
        raise BadInput(f"{name!r:.60} is no name of journals.", hint='Write it such as "bank".')
    topic = name if name.startswith(tuple(prefixes)) else f"{prefixes[0]}-{name}"
    check_new_topic_name(topic)
    if len(topic) > _LONGEST_TOPIC:
        raise BadInput(
            f"The topic {topic[:40]}… has {len(topic)} letters; its snapshots would have no topic.",
            hint=f"Keep it up to {_LONGEST_TOPIC}.",
        )
    return topic


def snapshot_topic(topic: str) -> str:
    """The topic that holds the snapshots of a topic's journals."""
    return SNAPSHOTS + topic


def control_topic(topic: str) -> str:
    """The topic that holds quarantine, audit and positions of a topic's journals."""
    return CONTROL + topic


def is_journal_topic(topic: str, prefixes: Sequence[str] = ("journal",)) -> bool:
    """Whether a topic holds journals, by its name. Topics of snapshots and of control records do not, whatever the prefixes are."""
    beginnings = tuple(prefixes)
    if not topic.startswith(beginnings):
        return False
    return not any(topic.startswith(own) and topic.removeprefix(own).startswith(beginnings) for own in (SNAPSHOTS, CONTROL))


def key_of(id: str) -> bytes:
    """The key of a journal's records: its id in UTF-8. Errors: `BadInput` for what is no id."""
    try:
        key = id.encode()
    except (AttributeError, UnicodeEncodeError):
        raise BadInput(f"{id!r:.60} is no id of a journal.", hint="Give text of whole characters.") from None
    if not key:
        raise BadInput("The id of a journal is empty.", hint='Give one such as "alice".')
    if len(key) > LONGEST_ID:
        raise BadInput(f"The id {id[:40]!r}… of {len(key)} bytes is too long.", hint=f"Keep it up to {LONGEST_ID} bytes of UTF-8.")
    return key


def check_id(id: object) -> str:
    """The id of a journal: text of 1 to 4096 bytes of UTF-8. Errors: `BadInput`."""
    if not isinstance(id, str):
        raise BadInput(f"{id!r:.60} is no id of a journal.", hint="Give text of whole characters.")
    key_of(id)
    return id
