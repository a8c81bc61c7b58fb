"""The two topics of a region, one partition each: `<namespace>_data_<region>` and `<namespace>_meta_<region>`."""

from __future__ import annotations

import re

import msgspec

from headwater.core.errors import BadInput
from headwater.wal.layout import MAX_ID
from headwater.wire.part import PartDefinition, load

PART = "wal"  # the owner of the topics
_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,99}")
_USUAL = "wal"  # the namespace of a bare number
_NUMBER = re.compile("[0-9]{1,20}")
_DATA = re.compile(rf"({_NAMESPACE.pattern})_data_(0|[1-9][0-9]{{0,19}})")


class RegionTopics(msgspec.Struct, frozen=True):
    """The names of a region's topics."""

    namespace: str
    region: int

    @property
    def data(self) -> str:
        return f"{self.namespace}_data_{self.region}"

    @property
    def meta(self) -> str:
        return f"{self.namespace}_meta_{self.region}"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.region}"


def region_topics(namespace: object, region: object) -> RegionTopics:
    """Errors: `BadInput` for what is no namespace, and for what is no number of a region."""
    if not isinstance(namespace, str) or not _NAMESPACE.fullmatch(namespace):
        raise BadInput(f"{namespace!r} is no namespace of regions.", hint="Use up to 100 letters, digits, '.' and '-'.")
    return RegionTopics(namespace, checked_id(region, "region"))


def region_named(text: str) -> RegionTopics:
    """The region that people call `NAMESPACE/ID`; a bare ID is in the namespace `wal`. Errors: `BadInput`."""
    namespace, _, number = text.strip().rpartition("/")
    if not _NUMBER.fullmatch(number):
        raise BadInput(f"{text.strip()!r} names no region.", hint="Write NAMESPACE/ID, such as wal/7; a bare ID is in the namespace wal.")
    return region_topics(namespace if "/" in text else _USUAL, int(number))


def checked_id(number: object, what: str) -> int:
    """The number of a region or a table. Errors: `BadInput`."""
    if type(number) is not int or not 0 <= number <= MAX_ID:
        raise BadInput(f"{number!r} is no {what}.", hint=f"Give a whole number from 0 to {MAX_ID}.")
    return number


def instead(topic: str, operation: str) -> str:
    """What to do instead of changing a region's topic with an operation of the log."""
    namespace, _, number = topic.replace("_meta_", "_data_").rpartition("_data_")
    region, owner = f"{namespace}/{number}", region_owner(namespace)
    if owner is not None:
        return str(load(owner.instead)(topic, operation))
    match operation:
        case "delete_topic":
            return f"Delete the region: `headwater wal delete {region}`."
        case "compact" | "delete_before":
            return f"Remove what no table needs: `headwater wal clean {region}`; `headwater wal why {region}` says what pins the rest."
        case _:
            return f"Write to a table of the region: `headwater wal write {region} TABLE PAYLOAD`, or append to a topic of your own."


def region_owner(namespace: str) -> PartDefinition | None:
    """The part that has reserved a namespace; None where everybody may use it."""
    parts: tuple[PartDefinition, ...] = load("headwater.parts:PARTS")  # by name: the parts are in a higher layer
    return next((part for part in parts if namespace in part.regions), None)


def region_of(topic: str) -> RegionTopics | None:
    """The region whose data topic this is; None for other topics."""
    match = _DATA.fullmatch(topic)
    return RegionTopics(match[1], int(match[2])) if match is not None and int(match[2]) <= MAX_ID else None
