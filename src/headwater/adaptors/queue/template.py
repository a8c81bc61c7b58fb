"""Texts with fields of a document in them, such as `page:{path}`. Pure."""

from __future__ import annotations

import re
from typing import Any

from headwater.core.errors import BadInput
from headwater.pipeline import values
from headwater.pipeline.message import Message

_FIELD = re.compile(r"\{([^{}]*)\}")
ID, NAMESPACE = "id", "namespace"


class Template:
    """A text. `{id}` in it is the document's id, `{namespace}` its namespace, `{name}` the value of a field, `{a.b}` of one inside another.

    Errors: `BadInput` for braces that hold no name.
    """

    def __init__(self, text: str) -> None:
        parts = _FIELD.split(text)
        self.texts, self.names = parts[::2], parts[1::2]
        if any(not name.strip() for name in self.names) or any("{" in literal or "}" in literal for literal in self.texts):
            raise BadInput(f"{text!r} has braces that hold no field.", hint='Write such as "page:{path}", or "{id}".')

    @property
    def is_id(self) -> bool:
        """Whether it is the document's id and nothing else."""
        return self.names == [ID] and not any(self.texts)

    def filled(self, message: Message) -> str:
        """The text for a message. Errors: `BadInput` where it lacks a field, or its id."""
        if not self.names:
            return self.texts[0]
        written = [part for pair in zip(self.texts, (_shown(message, name) for name in self.names), strict=False) for part in pair]
        return "".join([*written, self.texts[-1]])


def _shown(message: Message, name: str) -> str:
    if name == NAMESPACE:
        return message.namespace
    value: Any = message.id if name == ID else message.data
    for step in () if name == ID else name.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if value is None:
        label = f"the id {', '.join(message.id_fields)}" if name == ID else f"the field {name}"
        raise BadInput(f"The document has no value for {label}.", hint="Correct it with edit, or say key= and lane= otherwise.")
    return value if isinstance(value, str) else values.canonical(value).decode()
