"""Pipelines over HTTP: looked at, corrected, stepped and replayed."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from headwater.client.pipeline_addresses import ADDRESSES, QUERY_NAMES
from headwater.client.wire import unreadable
from headwater.pipeline.operating.answers import Messages, written
from headwater.pipeline.values import exact
from headwater.server.call import Call
from headwater.server.operation import LARGEST, Offer
from headwater.server.routes.pipelines_table import ANSWERS, BODIES, PAGED, TABLE

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from headwater.client.pipelines_local import LocalPipelines

_decoder = msgspec.json.Decoder(float_hook=exact)
_ARGUMENTS = {written: name for name, written in QUERY_NAMES.items()}


class PipelineRoutes:
    """One handler answers all questions: they differ in their names alone."""

    def __init__(self, *, pipelines: LocalPipelines) -> None:
        self._pipelines = pipelines

    def offers(self) -> list[Offer]:
        every: Offer = (TABLE[0], self._every)
        return [every, *((operation, partial(self._answer, operation.name.removeprefix("pipeline_"))) for operation in TABLE[1:])]

    async def _every(self, call: Call) -> ASGIApp:
        return _json({"items": await self._pipelines.every(), "next": None})

    async def _answer(self, verb: str, call: Call) -> ASGIApp:
        arguments = _placed(verb, call)
        if verb in BODIES:
            call.body_kind()
            arguments |= _sent(verb, await call.body())
        for name, value in call.query.items():
            if verb in PAGED and name in ("cursor", "limit"):
                continue
            if name == "dry_run":
                arguments[name] = value == "true"
            elif name == "why":
                arguments[name] = value or ""
            else:
                arguments[_ARGUMENTS.get(name, name)] = value
        found: Any = await self._pipelines.ask(call.path["name"], verb, ANSWERS[verb], arguments, who=call.who)
        if verb in PAGED:
            items, following = _page(verb, found, call.query["cursor"], call.query["limit"])
            return _json({"items": items, "next": following}, _link(call, "cursor", following))
        if isinstance(found, list):
            return _json({"items": found, "next": None})
        return _json(found, _link(call, "from", found.next) if isinstance(found, Messages) else None)


def _placed(verb: str, call: Call) -> dict[str, Any]:
    """What the path says, besides the pipeline's name."""
    inside = set(re.findall(r"{(\w+)}", ADDRESSES[verb].path)) - {"name"}
    return {name: call.number(name) if name == "offset" else call.path[name] for name in inside}


def _sent(verb: str, body: bytes) -> dict[str, Any]:
    """What the body says; an empty one says nothing. Errors: `BadInput` with the nearest known field."""
    try:
        sent = _decoder.decode(body.strip() or b"{}")
        if isinstance(sent, dict):
            sent = {name: _whole(value) for name, value in sent.items()}
        return msgspec.structs.asdict(msgspec.convert(sent, BODIES[verb]))
    except (msgspec.MsgspecError, ArithmeticError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(error, BODIES[verb].__struct_fields__) from None


def _whole(value: Any) -> Any:
    """A number of the body itself: 3.0 is whole, to JSON Schema as to people. Numbers inside of documents stay as they are."""
    if isinstance(value, Decimal | float) and -LARGEST <= value <= LARGEST and value == int(value):
        return int(value)
    return value


def _page(verb: str, found: list[Any], cursor: str | None, limit: int) -> tuple[list[Any], str | None]:
    """A part of a list, and the cursor that goes on behind it: one that stays right while others take things out of the list."""
    start = 0
    if cursor is not None:
        sink, _, number = cursor.rpartition("/")
        at = int(number)  # the parameter's pattern has been looked at
        start = at if verb == "audit" else sum(1 for one in found if (one.sink, one.offset) <= (sink, at))
    items = found[start : start + limit]
    if start + limit >= len(found):
        return items, None
    return items, str(start + limit) if verb == "audit" else f"{items[-1].sink}/{items[-1].offset}"


def _link(call: Call, cursor: str, following: str | None) -> dict[str, str] | None:
    if following is None:
        return None
    query = urlencode({name: value for name, value in {**call.query, cursor: following}.items() if value is not None})
    return {"Link": f'<{call.scope["path"]}?{query}>; rel="next"'}


def _json(content: object, headers: dict[str, str] | None = None) -> Response:
    return Response(written(content), 200, headers, "application/json")
