"""`headwater pipeline test`: checks every connection and permission, sends the first message through the transforms, and tells the types of
a sample. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, suppress
from itertools import islice
from typing import Any, Literal

import msgspec

from headwater.core.errors import BadConfig, BadInput, HeadwaterError
from headwater.pipeline import values
from headwater.pipeline.adaptor import Adaptor
from headwater.pipeline.definition import Pipeline, Sink
from headwater.pipeline.message import Message
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.operating.field_types import types_in
from headwater.pipeline.overlap import OverlapCheck
from headwater.pipeline.running.copy_order import CopyOrder
from headwater.pipeline.source_adaptor import CanCopy, Slice
from headwater.pipeline.transform import chain
from headwater.pipeline.transforms.missing_columns import MISSING, told

SAMPLE = 500  # documents of a namespace whose types are told
NAMESPACES = 20
_ONE_TASK = "they may change ids, so one task at a time writes a copy; keeps_id=True, where they leave the id fields alone, lets all write"
_UNOWNED = "it keeps no note of who writes there: a run of the same pipeline from another data directory is not refused"


def preflight(pipeline: Pipeline) -> dict[str, Any]:
    """`checks`: one for the source, each sink and each chain of transforms; `message`: the first one, or None; `types`: those of a sample's
    fields, by namespace; `warnings`: of fields that have several, and of tables whose key is not the id."""
    assert pipeline.reader is not None
    checks = [_check(pipeline.source_name, pipeline.reader, "source", pipeline.namespaces)]
    overlap = OverlapCheck(pipeline)
    checks += [_check_sink(sink, overlap) for sink in pipeline.sinks.values()]
    sample: list[Message] = []
    if checks[0]["ok"]:
        try:
            sample = _sample(pipeline)
        except HeadwaterError as error:  # a source that can be reached may not be readable
            checks.append(_bad(f"{pipeline.source_name}'s first message", error))
    message = sample[0] if sample else None
    if message is not None:
        checks += [_transforms(pipeline, name, message) for name, sink in pipeline.sinks.items() if sink.transforms]
        checks += [check for name, sink in pipeline.sinks.items() if sink.needs_session for check in _columns(pipeline, name, sample)]
    shown = None if message is None else {"namespace": message.namespace, "data": values.as_json(message.data)}
    types = types_in(sample)
    warnings = [f"{entry.namespace}: {field.warning}" for entry in types for field in entry.fields if field.mixed]
    warnings += [warning for sink in pipeline.sinks.values() for warning in _other_keys(sink, sample)]
    return {"checks": checks, "message": shown, "types": [msgspec.to_builtins(entry) for entry in types], "warnings": warnings}


def _check(name: str, adaptor: Adaptor, role: Literal["source", "sink"], chosen: Namespaces) -> dict[str, Any]:
    try:
        summary = "; ".join(adaptor.check(role, chosen)) or "can be used"
    except HeadwaterError as error:
        return _bad(name, error)
    return _good(name, summary)


def _check_sink(sink: Sink, overlap: OverlapCheck) -> dict[str, Any]:
    check = _check(sink.name, sink.adaptor, "sink", sink.namespaces)
    if check["ok"] and not sink.adaptor.keeps_owner:
        check = _good(sink.name, f"{check['said']}; {_UNOWNED}")
    try:
        overlap.check(sink)
    except HeadwaterError as error:
        return _bad(sink.name, error) if check["ok"] else check
    return check


def _sample(pipeline: Pipeline) -> list[Message]:
    """Some messages of each of the first namespaces. A source that can only be followed is not waited for."""
    reader = pipeline.reader
    if not isinstance(reader, CanCopy):
        return []
    sample: Callable[[Namespaces, int], list[Message]] | None = getattr(reader, "sample", None)
    if sample is not None:  # of an adaptor whose plan changes its source
        return sample(pipeline.namespaces, SAMPLE)
    if getattr(reader, "tail", False):
        reader = msgspec.structs.replace(reader, tail=False)  # a plan for following makes replication slots at the source
    plan = reader.plan(pipeline.namespaces, 1)
    taken: dict[str, list[Message]] = {}
    for part in plan.slices:
        some = taken.setdefault(part.namespace, []) if part.namespace in taken or len(taken) < NAMESPACES else None
        if some is None or len(some) >= SAMPLE:
            continue
        with closing(_messages(reader, part, plan.ids.get(part.namespace, ("_id",)))) as messages:
            some += islice(messages, SAMPLE - len(some))
    return [message for some in taken.values() for message in some]


def _messages(reader: CanCopy, part: Slice, ids: tuple[str, ...]) -> Generator[Message, None, None]:
    """The messages of a slice that can be read."""
    for piece in reader.read(part, None):
        for index, message in enumerate(piece.messages):
            if index not in piece.bad:
                yield message
        for index, text in enumerate(piece.values):
            data: dict[str, Any] | None = None
            with suppress(BadInput):  # a run makes a poison record of it
                data = values.decode(text) if index not in piece.bad else None
            if data is not None:
                yield Message(part.namespace, data, id_fields=ids, offset=0)


def _columns(pipeline: Pipeline, name: str, sample: list[Message]) -> list[dict[str, Any]]:
    """A failed check for each `sql` transform that names columns which no document of the sample has."""
    transforms = pipeline.sinks[name].transforms
    for transform in transforms:
        MISSING.forget(transform.name)
    try:
        chain(transforms)([_copy(message, at) for at, message in enumerate(sample) if message.namespace in pipeline.sinks[name].namespaces])
    except HeadwaterError:
        return []  # one of the sample is refused, as a run would tell
    missing = [(transform.name, columns) for transform in transforms if (columns := MISSING.of(transform.name))]
    hint = 'Mend the name; or fix what there is with schema=, as in sql("...", schema="_id BIGINT, price DECIMAL(10, 2)").'
    return [_bad(f"{name}'s transforms", BadConfig(told(transform, columns), hint=hint)) for transform, columns in missing]


def _copy(message: Message, offset: int = 0) -> Message:
    own = values.decode(values.store(message.data))
    return Message(message.namespace, own, message.op, message.timestamp, message.mode, offset, message.id_fields)


def _transforms(pipeline: Pipeline, name: str, message: Message) -> dict[str, Any]:
    sink = pipeline.sinks[name]
    if sink.needs_session:
        from headwater.spark import session

        session()
    try:
        changed = chain(sink.transforms)([_copy(message)])[0]
        by_offset = sink.adaptor.ordered() or sink.adaptor.gathers()
    except HeadwaterError as error:
        return _bad(f"{name}'s transforms", error)
    effect = "drop the first message" if changed is None else f"make of it {values.encode(changed.data).decode()}"
    parallel = by_offset or CopyOrder(sink).keeps_ids({message.namespace: message.id_fields})
    return _good(f"{name}'s transforms", effect if parallel else f"{effect}; {_ONE_TASK}")


def _other_keys(sink: Sink, sample: list[Message]) -> list[str]:
    """Warnings of tables that one task at a time writes to."""
    ids = {message.namespace: message.id_fields for message in sample if message.namespace in sink.namespaces}
    keys: dict[str, tuple[str, ...]] = {}
    with suppress(HeadwaterError):  # the check of the sink tells it
        keys = CopyOrder(sink).other_keys(ids)
    return [
        f"{sink.name}: the key of {place} is ({', '.join(key)}), and documents are told apart by other fields, so that one task at a time "
        "writes. Where the source can name its id, give it the key."
        for place, key in keys.items()
    ]


def _good(name: str, summary: str) -> dict[str, Any]:
    return {"name": name, "ok": True, "said": summary, "hint": "", "exit_code": 0}


def _bad(name: str, error: HeadwaterError) -> dict[str, Any]:
    return {"name": name, "ok": False, "said": error.message, "hint": error.hint, "exit_code": error.exit_code}
