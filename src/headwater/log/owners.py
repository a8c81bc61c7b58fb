"""Owners of topics. Only the owning part changes its topic; everybody may read it.

The owner is the part that created the topic. The embedded engine stores it in `topic.json`, Kafka in the topic's configuration
(`headwater.log.kafka.owner_config`). Parts may also reserve names by prefixes (`PARTS`): nobody else creates a topic of such a name, and
the name tells the owner of a topic that stores none, such as an older one. Other topics without a stored owner belong to nobody.
"""

from __future__ import annotations

import msgspec

from headwater.core.errors import AlreadyExists, BadInput, OwnedTopic
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


def new_settings(topic: str, settings: TopicSettings | None, part: str) -> TopicSettings:
    """The settings of a topic that `part` creates ("": a user), with their owner.

    Errors: `OwnedTopic` for a name that belongs to another part; `BadInput` for settings that name another owner.
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
    return msgspec.structs.replace(settings, owner=part)


def not_made_by(topic: str, part: str) -> AlreadyExists:
    """The error of a part that creates a topic which a user, or another program, has made."""
    return AlreadyExists(
        f"Topic {topic} is there, and the part {part} has not made it.", hint="Choose another name, or delete the topic first."
    )


def _instead(topic: str, owner: str, operation: str) -> str:
    """The hint for a refused operation on a topic of `owner`."""
    instead = next((part.instead for part in _parts() if part.name == owner and part.instead), "")
    if instead:
        return str(load(instead)(topic, operation))
    return f"Use the commands of that part: `headwater {owner} --help`."


def _parts() -> tuple[PartDefinition, ...]:
    """All parts. Loaded by name, because they are in a higher layer."""
    known: tuple[PartDefinition, ...] = load("headwater.parts:PARTS")
    return known
