"""`python`: a function of the pipeline's file, called with each message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from headwater.core.errors import BadConfig, BadInput, Rejected
from headwater.pipeline.long_integer import plain
from headwater.pipeline.message import DEFAULT_ID, Message, Op
from headwater.pipeline.strict import strict
from headwater.pipeline.transform import Apply, Transform, check_id, one_by_one
from headwater.pipeline.values import extended

Function = Callable[[Message], "Message | Mapping[str, Any] | None"]


class Python(Transform):
    """Made by `python`."""

    def __init__(self, function: Function, keeps_id: bool) -> None:
        self.function, self.keeps_id = function, keeps_id
        self.name = f"python({getattr(function, '__name__', type(function).__name__)})"

    def opened(self) -> Apply:
        function, keeps_id, name = self.function, self.keeps_id, self.name

        def call(message: Message) -> Message | None:
            offset, mode, timestamp, fields = message.offset, message.mode, message.timestamp, message.id_fields
            namespace, op = message.namespace, message.op
            before = message.id if keeps_id else None
            if type(before) not in (int, str):  # the function may change a list or an object
                before = to_builtins(before, builtin_types=(Decimal,), enc_hook=plain)
            result = function(message)  # a copy of this sink's own, decoded for it: people may change what they are given
            if result is None:
                return None
            if result is message and message.namespace is namespace and message.op is op and type(message.data) is dict:
                made = message  # the rule: the message itself, with other data
                made.data = extended(made.data)
            elif isinstance(result, Message):
                made = _checked(result, fields)
                if keeps_id and made.namespace != namespace:
                    _refuse_moved(name, namespace, made.namespace, offset)
            elif isinstance(result, Mapping):
                made = replace(message, data=extended(result))
            else:
                raise BadInput(f"It returned {type(result).__name__}, not a message, an object or None.")
            made.offset, made.mode, made.timestamp = offset, mode, made.timestamp or timestamp  # its place in the log stays
            if keeps_id and made.id is not before:
                check_id(name, before, made)
            return made

        return one_by_one(self, call)


def _refuse_moved(name: str, before: str, after: str, offset: int) -> None:
    """Errors: `Rejected`. Documents of several namespaces could have one id, and tasks would write them side by side."""
    raise Rejected(
        f"Transform {name} says keeps_id=True, and changed the namespace {before} to {after}.",
        offset=offset,
        hint=f'Change it with remap({{"{before}": "{after}"}}), or leave keeps_id out.',
    )


def _checked(result: Message, fields: tuple[str, ...]) -> Message:
    """The message that a function gave, fit for sinks. What a new message leaves out is as in the original."""
    if type(result.data) is not dict and not isinstance(result.data, Mapping):
        raise BadInput(f"The message's data is {type(result.data).__name__}, not an object.")
    if not isinstance(result.namespace, str) or not result.namespace:
        raise BadInput(f"The message's namespace is {result.namespace!r}, not a text.")
    if not isinstance(result.op, Op):
        raise BadInput(f"The message's op is {result.op!r}, not one of Op.")
    result.data = extended(result.data)
    if result.id_fields == DEFAULT_ID and result.id_fields is not fields and all(name in result.data for name in fields):
        result.id_fields = fields
    return result


@strict
def python(fn: Function, *, keeps_id: bool = False) -> Transform:
    """Call a function with each message: `python(lambda m: m if m.data["total"] > 0 else None)`.

    The function returns a `Message` (the one given, changed, or another), an object that becomes its data, or None to drop it. The message
    is its own copy, to be changed at will. Dates, bytes, UUIDs and numpy's numbers in what it returns are written as extended JSON. It may
    be a lambda or any function of the pipeline's file; it runs inside Spark's workers, in another process. What it raises makes the message
    a poison record, with the traceback.

    `keeps_id=True` promises that the namespace and the fields that tell documents apart stay as they are: delivery is then quicker, because
    tasks need not transform each other's messages to see whose they are. A message for which that is not so is a poison record.
    """
    if not callable(fn):
        raise BadConfig(f"python: {fn!r} is no function.", hint="Give a function that takes a message: python(fix).")
    return Python(fn, bool(keeps_id))
