"""Events of aggregates as JSON: msgspec structs with their type and version, and upcasters from earlier versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from headwater.core.errors import BadInput, UnknownEvent
from headwater.journal.event import EventRecord

TYPE, VERSION = "type", "version"
E = TypeVar("E", bound=msgspec.Struct)
Upcaster = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Takes the fields of an event in one version, and returns those of the next."""


def event_type(kind: type[msgspec.Struct]) -> str:
    """The type that events of a struct have: its tag, or the name of its class. Errors: `BadInput` for what can be no event."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        raise BadInput(f"{kind!r:.60} is no type of events.", hint="Derive it from msgspec.Struct.")
    config = kind.__struct_config__
    if config.array_like:
        raise BadInput(f"{kind.__name__} is written as a list, without names.", hint="Leave array_like out.")
    if clashing := {TYPE, VERSION} & set(kind.__struct_encode_fields__):
        raise BadInput(f"{kind.__name__} has a field named {min(clashing)}, which its JSON needs itself.", hint="Rename the field.")
    return config.tag if isinstance(config.tag, str) else kind.__name__


def event_version(kind: type[msgspec.Struct]) -> int:
    """The version that events of a struct have: its class variable `event_version`, or 1. Errors: `BadInput`."""
    version = getattr(kind, "event_version", 1)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BadInput(f"{kind.__name__}.event_version is {version!r:.40}.", hint="Give 1 or more.")
    return version


def write_event(event: msgspec.Struct) -> dict[str, Any]:
    """The payload of an event. Errors: `BadInput` for fields that JSON cannot hold."""
    kind = type(event)
    try:
        fields = msgspec.to_builtins(event, str_keys=True)
    except (TypeError, msgspec.MsgspecError) as error:
        raise BadInput(
            f"{kind.__name__} cannot be written as JSON: {error}.", hint="Give it fields of types that msgspec knows."
        ) from error
    return {
        TYPE: event_type(kind),
        VERSION: event_version(kind),
        **{name: fields[name] for name in kind.__struct_encode_fields__ if name in fields},
    }


def read_event(kind: type[E], version: int, data: Mapping[str, Any], id: str, seq_nr: int) -> E:
    """An event of a struct, from its fields in a version. Errors: `UnknownEvent` for another version, and for fields that do not fit."""
    newest_version, where = event_version(kind), f"Event {seq_nr} of journal {id!r:.60}, of the type {event_type(kind)!r:.60},"
    if version > newest_version:
        raise UnknownEvent(f"{where} has version {version}; this program knows {newest_version}.", hint="Load it with the newer program.")
    if version < newest_version:
        raise UnknownEvent(
            f"{where} has version {version}, and no upcaster brings it to {newest_version}.",
            hint=f"Add one: @upcasters.of({event_type(kind)!r:.60}, {version}).",
        )
    config = kind.__struct_config__
    tagged = {config.tag_field: config.tag} if config.tag_field is not None else {}
    try:
        return msgspec.convert({**data, **tagged}, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise UnknownEvent(
            f"{where} does not fit {kind.__name__}: {error}.", hint="Raise its event_version, and add an upcaster."
        ) from error


class Upcasters:
    """Functions that bring events from one version to the next, by type and version.

    upcasters = Upcasters()

    @upcasters.of("Deposited", 1)
    def cents(fields): return {"cents": fields["eur"] * 100}

    They are applied in a chain, when events are read; what is stored stays as it is.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[Upcaster, str]] = {}

    def of(self, type: str, version: int, *, becomes: str | None = None) -> Callable[[Upcaster], Upcaster]:
        """Marks the upcaster of a type's version. `becomes`: another type that its events have then. Errors: `BadInput` for two of one
        version."""
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise BadInput(f"{version!r:.40} is no version of an event.", hint="Give the version that it takes: 1 or more.")

        def mark(upcaster: Upcaster) -> Upcaster:
            if (type, version) in self._known:
                raise BadInput(f"Events of the type {type!r:.60} in version {version} have two upcasters.", hint="Leave one of them.")
            self._known[type, version] = upcaster, becomes or type
            return upcaster

        return mark

    def upcast(self, id: str, record: EventRecord) -> tuple[str, int, dict[str, Any]]:
        """The type, the version and the fields of an event, as new as the upcasters make them. Errors: `UnknownEvent` for a payload that is
        no event of an aggregate, and where an upcaster fails."""
        payload = record.payload
        where = f"Event {record.seq_nr} of journal {id!r:.60}"
        if not isinstance(payload, dict) or not isinstance(payload.get(TYPE), str):
            raise UnknownEvent(f"{where} has no type: its payload is {payload!r:.60}.", hint="Aggregates read what aggregates have saved.")
        fields = dict(payload)
        type_name, version = fields.pop(TYPE), fields.pop(VERSION, 1)
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise UnknownEvent(f"{where}, of the type {type_name!r:.60}, has the version {version!r:.40}.", hint="Versions begin at 1.")
        while (entry := self._known.get((type_name, version))) is not None:
            upcaster, becomes = entry
            try:
                fields = dict(upcaster(fields))
            except Exception as error:
                raise UnknownEvent(
                    f"{where}, of the type {type_name!r:.60}: its upcaster from version {version} fails: {error_text(error)}.",
                    hint="Mend the upcaster; the event is stored as it was.",
                ) from error
            type_name, version = becomes, version + 1
        return type_name, version, fields


def error_text(error: Exception) -> str:
    """An error of a user's function, short."""
    return f"{type(error).__name__}: {error}"[:200]


NO_UPCASTERS = Upcasters()
