"""The interface of transforms. The ones that exist are in `headwater.pipeline.transforms`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Self

from msgspec.structs import replace

from headwater.core.errors import Rejected
from headwater.pipeline.long_integer import Long
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.values import canonical, native

Apply = Callable[[Sequence[Message]], "list[Message | None]"]
Fields = Callable[[dict[str, Any]], dict[str, Any]]

_op = attrgetter("op")
_COMMAND, _SKIP = Op.COMMAND, Op.SKIP
_MIXED = (
    'Python does not mix Decimal and float: write numbers of your own as Decimal("1.5"), or read floats from text with decimals="float" on '
    "the source."
)


class Transform(ABC):
    """Changes messages, one by one or a batch at once. A value: it travels to Spark's workers.

    `keeps_id`: the fields that tell documents apart are never changed, so that changes of one document stay in order without looking at
    what the transform gives. A transform that says so and changes an id makes its message a poison record.
    """

    name: str
    keeps_id: bool = False
    needs_session: bool = False  # applied where a Spark session is: in the driver, never inside a task
    takes_commands: bool = False  # commands do not pass by: under its old name, one would empty a table of somebody else
    namespaces: Namespaces = Namespaces()

    def keeps(self, id_fields: Sequence[str]) -> bool:
        """`keeps_id` for documents told apart by these fields: omitting `card` keeps `_id`, and would not keep `card`."""
        return self.keeps_id

    @abstractmethod
    def opened(self) -> Apply:
        """The function that is applied: given messages, it returns as many, None for each that is dropped. Made once per task.

        The messages are its own, and may be changed: whoever delivers one again makes it anew, with no list or object shared.
        Errors while applying: `Rejected` with the offset of the message; any other exception where messages come one by one.
        """

    def fields(self) -> Fields | None:
        """For a transform that moves or removes fields without looking at their values: what it makes of a document, which it may change.

        Documents that come as text and go as text are then not taken apart further. None for every other transform.
        """
        return None

    def within(self, namespaces: Namespaces) -> Self:
        """This transform for messages of some namespaces; others pass by."""
        from copy import copy

        made = copy(self)
        made.namespaces = namespaces
        return made

    def __str__(self) -> str:
        return self.name


def chain(transforms: Sequence[Transform]) -> Apply:
    """All transforms in order, with their namespaces; commands pass by most of them, op skip drops. Errors: `Rejected`, naming the
    transform."""
    steps = [(transform.namespaces, transform.takes_commands, transform.opened()) for transform in transforms]

    def apply(messages: Sequence[Message]) -> list[Message | None]:
        now: list[Message | None] = list(messages)
        whole = _COMMAND not in map(_op, messages)  # every message is there and goes through every step
        for namespaces, commands, step in steps:
            if whole and namespaces.everything:  # the quick way: nothing to pick out
                now = step(now)  # type: ignore[arg-type]
                if len(now) != len(messages):
                    raise ValueError(f"A transform made {len(now)} messages of {len(messages)}.")
                whole = all(now) and _SKIP not in map(_op, now)
                if not whole:
                    now = [None if message is None or message.op is _SKIP else message for message in now]
                continue
            at = [
                i
                for i, message in enumerate(now)
                if message is not None and (commands or message.op is not _COMMAND) and message.namespace in namespaces
            ]
            if not at:
                continue
            results = step([message for i in at if (message := now[i]) is not None])
            for i, message in zip(at, results, strict=True):
                now[i] = None if message is None or message.op is _SKIP else message
            whole = False
        return now

    return apply


def chain_of_fields(transforms: Sequence[Transform]) -> Fields | None:
    """All transforms in order as one function of a document's fields, where each one is such a function and takes every namespace."""
    steps = [transform.fields() if transform.namespaces.everything else None for transform in transforms]
    if not steps or None in steps:
        return None
    if len(steps) == 1:
        return steps[0]

    def apply(data: dict[str, Any]) -> dict[str, Any]:
        for step in steps:
            data = step(data)  # type: ignore[misc]
        return data

    return apply


def field_by_field(fields: Fields) -> Apply:
    """An `Apply` of such a function."""

    def apply(messages: Sequence[Message]) -> list[Message | None]:
        return [replace(message, data=fields(message.data.copy())) for message in messages]

    return apply


def one_by_one(transform: Transform, call: Callable[[Message], Message | None]) -> Apply:
    """An `Apply` of a function for one message: whatever it raises becomes `Rejected` with the transform's name and the traceback."""

    def apply(messages: Sequence[Message]) -> list[Message | None]:
        out: list[Message | None] = []
        try:
            for message in messages:
                out.append(call(message))
        except Rejected:
            raise
        except Exception as error:
            raise refused(transform, messages[len(out)].offset, error) from error
        return out

    return apply


def refused(transform: Transform, offset: int, error: BaseException) -> Rejected:
    """The `Rejected` for what a transform raised."""
    import traceback

    return Rejected(
        f"Transform {transform.name} raised {type(error).__name__}: {error}",
        offset=offset,
        trace="".join(traceback.format_exception(error, limit=-8)),
        hint=_MIXED if _mixes_numbers(error) else "Mend the transform, or the message with `headwater pipeline edit`.",
    )


def _mixes_numbers(error: BaseException) -> bool:
    """Whether the error is Python's for a `Decimal` and a float in one operation."""
    text = str(error)
    return isinstance(error, TypeError) and "Decimal" in text and "float" in text


def same_id(before: Any, after: Any) -> bool:
    """Whether two ids are one, as stored: 1 and "1" are two, and so are 1 and true."""
    before, after = (native(value) if type(value) is Long else value for value in (before, after))
    return before is after or (type(before) is type(after) and before == after and canonical(before) == canonical(after))


def each_changed(transform: Transform, messages: Iterable[Message], change: Fields) -> list[Message]:
    """New messages with what `change` makes of copies of their data. Errors: as `check_id`, where the transform says that it keeps ids."""
    made: list[Message] = []
    for message in messages:
        changed = replace(message, data=change(message.data.copy()))
        if transform.keeps_id:
            check_id(transform.name, message.id, changed)
        made.append(changed)
    return made


def check_id(name: str, before: Any, after: Message) -> None:
    """Errors: `Rejected` when a transform that has promised to keep ids has changed one."""
    if not same_id(before, after.id):
        raise Rejected(
            f"Transform {name} says keeps_id=True, and changed the id {before!r} to {after.id!r}.",
            offset=after.offset,
            hint="Leave keeps_id out, or the fields that documents are told apart by as they are.",
        )
