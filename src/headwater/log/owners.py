"""Owners of topics. Only the owning part changes its topic; everybody may read it.

The owner is the part that created the topic. The embedded engine stores it in `topic.json`. On Kafka, and for older topics, the name
decides: parts declare the prefixes of their topics (`PARTS`).
"""

from __future__ import annotations

import msgspec

from headwater.core.errors import BadInput, OwnedTopic, Unsupported
from headwater.log.record import TopicSettings
from headwater.wire.part import PartDefinition, load


def owner_by_name(topic: str) -> str:
    """The part whose prefix begins the topic's name; "" if there is none."""
    return next((part.name for part in _parts() if part.owns and topic.startswith(part.owns)), "")


def owned(topic: str, settings: TopicSettings) -> TopicSettings:
    """A topic's settings, with the owner by its name where they store none."""
    return settings if settings.owner else msgspec.structs.replace(settings, owner=owner_by_name(topic))


def check_owner(topic: str, owner: str, part: str, operation: str) -> None:
    """Errors: `OwnedTopic` where a topic of `owner` is to be changed by another: a user (`part` is ""), or another part.

    `operation` is one of the log's, as its table names it.
    """
    if owner and owner != part:
        raise OwnedTopic(f"Topic {topic} belongs to the part {owner}, which alone changes it.", hint=_instead(topic, owner, operation))


def new_settings(topic: str, settings: TopicSettings | None, part: str, *, kept: bool) -> TopicSettings:
    """The settings of a topic that `part` creates ("": a user), with their owner. `kept`: the engine stores an owner.

    Errors: `OwnedTopic` for a name that belongs to another part; `BadInput` for settings that name another owner; `Unsupported` where the
    engine cannot store the owner and the name does not tell it.
    """
    by_name = owner_by_name(topic)
    if by_name and by_name != part:
        raise OwnedTopic(
            f"Topics whose names begin as {topic} does belong to the part {by_name}.", hint=_instead(topic, by_name, "create_topic")
        )
    settings = settings or TopicSettings()
    if settings.owner not in ("", part):
        raise BadInput(
            f"The settings name {settings.owner} as the owner of {topic}.",
            hint='Leave the owner out (owner=""): a part creates its topics itself, and the others are everybody\'s.',
        )
    if part and not by_name and not kept:
        prefixes = ", ".join(prefix for one in _parts() if one.name == part for prefix in one.owns) or "none are declared"
        raise Unsupported(
            f"Kafka has no place for the owner of {topic}, so its name must tell it.", hint=f"Prefixes of the part {part}: {prefixes}."
        )
    return msgspec.structs.replace(settings, owner=part)


def _instead(topic: str, owner: str, operation: str) -> str:
    """The hint for a refused operation on a topic of `owner`."""
    told = next((part.instead for part in _parts() if part.name == owner and part.instead), "")
    if told:
        return str(load(told)(topic, operation))
    return f"Use the commands of that part: `headwater {owner} --help`."


def _parts() -> tuple[PartDefinition, ...]:
    """All parts. Loaded by name, because they are in a higher layer."""
    found: tuple[PartDefinition, ...] = load("headwater.parts:PARTS")
    return found
