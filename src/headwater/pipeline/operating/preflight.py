"""`headwater pipeline test`: checks every connection and permission, and sends the first message through the transforms. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from headwater.core.errors import HeadwaterError
from headwater.pipeline import values
from headwater.pipeline.adaptor import Adaptor, CanCopy
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.message import Message
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.transform import chain


def preflight(pipeline: Pipeline) -> dict[str, Any]:
    """`checks`: one for the source, each sink and each chain of transforms; `message`: the first one, or None."""
    assert pipeline.reader is not None
    checks = [_check(pipeline.source_name, pipeline.reader, "source", pipeline.namespaces)]
    checks += [_check(sink.name, sink.adaptor, "sink", sink.namespaces) for sink in pipeline.sinks.values()]
    message = None
    if checks[0]["ok"]:
        try:
            message = _first(pipeline)
        except HeadwaterError as error:  # a source that can be reached may not be readable
            checks.append(_bad(f"{pipeline.source_name}'s first message", error))
    if message is not None:
        checks += [_transforms(pipeline, name, message) for name, sink in pipeline.sinks.items() if sink.transforms]
    shown = None if message is None else {"namespace": message.namespace, "data": message.data}
    return {"checks": checks, "message": shown}


def _check(name: str, adaptor: Adaptor, role: Literal["source", "sink"], chosen: Namespaces) -> dict[str, Any]:
    try:
        said = "; ".join(adaptor.check(role, chosen)) or "can be used"
    except HeadwaterError as error:
        return _bad(name, error)
    return _good(name, said)


def _first(pipeline: Pipeline) -> Message | None:
    """One message. A source that can only be followed is not waited for."""
    reader = pipeline.reader
    if not isinstance(reader, CanCopy):
        return None
    first: Callable[[Namespaces], Message | None] | None = getattr(reader, "first", None)
    if first is not None:  # of an adaptor whose plan changes its source
        return first(pipeline.namespaces)
    if getattr(reader, "tail", False):
        reader = msgspec.structs.replace(reader, tail=False)  # a plan for following makes replication slots at the source
    plan = reader.plan(pipeline.namespaces, 1)
    for part in plan.slices:
        for piece in reader.read(part, None):
            if piece.messages:
                return piece.messages[0]
            for index, text in enumerate(piece.values):
                if index not in piece.bad:
                    return Message(part.namespace, values.decode(text), id_fields=plan.ids.get(part.namespace, ("_id",)), offset=0)
    return None


def _transforms(pipeline: Pipeline, name: str, message: Message) -> dict[str, Any]:
    if pipeline.sinks[name].needs_session:
        from headwater.spark import session

        session()
    own = values.decode(values.encode(message.data))
    copy = Message(message.namespace, own, message.op, message.timestamp, message.mode, 0, message.id_fields)
    try:
        given = chain(pipeline.sinks[name].transforms)([copy])[0]
    except HeadwaterError as error:
        return _bad(f"{name}'s transforms", error)
    said = "drop the first message" if given is None else f"make of it {values.encode(given.data).decode()}"
    return _good(f"{name}'s transforms", said)


def _good(name: str, said: str) -> dict[str, Any]:
    return {"name": name, "ok": True, "said": said, "hint": "", "exit_code": 0}


def _bad(name: str, error: HeadwaterError) -> dict[str, Any]:
    return {"name": name, "ok": False, "said": error.message, "hint": error.hint, "exit_code": error.exit_code}
