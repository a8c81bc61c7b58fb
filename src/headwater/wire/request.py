"""Turns an operation's request into an HTTP address and body, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any, Generic
from urllib.parse import parse_qsl, quote

import msgspec

from headwater.core.errors import BadInput
from headwater.core.spelling import nearest
from headwater.wire import json
from headwater.wire.operation import NOT_BLANK, Operation, Paging, R, Request
from headwater.wire.parameter import Field, Parameter, Segments, bounds_of, fields_of

_PLAIN = re.compile(rb"[A-Za-z_]+=[A-Za-z0-9_.-]*(?:&[A-Za-z_]+=[A-Za-z0-9_.-]*){0,9}")  # what needs no decoding: nearly every query


class SentRequest(msgspec.Struct, frozen=True):
    """A request as it is sent over HTTP."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes | None


class RequestShape(Generic[R]):
    """How the requests of an operation travel over HTTP."""

    def __init__(self, operation: Operation[R, Any]) -> None:
        fields = list(fields_of(operation.request, operation.method, operation.path))
        self._operation = operation
        parameters = [field.parameter for field in fields if field.parameter is not None]
        self.path = {parameter.name: parameter for parameter in parameters if parameter.place == "path"}
        self.headers = [parameter for parameter in parameters if parameter.place == "header"]
        self.query = {parameter.name: parameter for parameter in parameters if parameter.place == "query"}
        self.paging = paging_parameters(operation.paging) if operation.paging else ()
        self._known = {**self.query, **{parameter.name: parameter for parameter in self.paging}}
        self._body = [field for field in fields if field.place == "body"]
        self.body: type[msgspec.Struct] | None = _body(operation.request, self._body) if self._body and not operation.content else None

    # -- as the server reads it -----------------------------------------------------------------------------

    def read(self, path: Mapping[str, str], query: Mapping[str, Any], headers: Mapping[str, str], body: bytes = b"") -> R:
        """The request. `query`: the result of `read_query`. Errors: `BadInput` with the mistake and its correction."""
        values = {
            parameter.field: parameter.read(path[name]) if parameter.kind == "number" else path[name]
            for name, parameter in self.path.items()
        }
        for parameter in self.headers:
            written = headers.get(parameter.name.lower())
            values[parameter.field] = parameter.default if written is None else parameter.read(written)
        values |= {parameter.field: query[name] for name, parameter in self.query.items()}
        if self.body is not None:
            values |= self._read_body(body)
        return self._operation.request(**values)

    def read_query(self, written: bytes) -> dict[str, Any]:
        """Every parameter by its name; None for a missing one without a default. Errors: `BadInput`."""
        values: dict[str, Any] = {name: parameter.default for name, parameter in self._known.items()}
        if written:
            if self._operation.rewrites is not None:
                written = self._operation.rewrites(written)
            seen = set()
            for name, value in _pairs(written):
                if name not in self._known:
                    hint = nearest(name, self._known) if self._known else "It takes none."
                    raise BadInput(f"{self._operation.method} {self._operation.path} has no parameter {name!r}.", hint=hint)
                if name in seen:
                    raise BadInput(f"`{name}` is given twice.", hint="Give it once.")
                seen.add(name)
                values[name] = self._known[name].read(value)
        for name, parameter in self._known.items():
            if parameter.required and values[name] is None:
                raise BadInput(f"`{name}` is missing.", hint=f"Add `{name}` to the address, as ?{name}=…: {parameter.text}")
        return values

    def _read_body(self, body: bytes) -> dict[str, Any]:
        """The fields of the body; none for an empty body."""
        assert self.body is not None
        try:
            sent: Any = json.decoder(object)(body.strip() or b"{}")
            if isinstance(sent, dict):
                sent = {name: _whole(value) for name, value in sent.items()}
            converted = msgspec.convert(sent, self.body)
        except json.UNREADABLE as error:
            if re.search(r"`\$\.why`|field `why`", str(error)):
                raise reason_missing() from None
            raise self._unfit(error) or json.unreadable(error, [field.written for field in self._body]) from None
        return {field.name: getattr(converted, field.name) for field in self._body}

    def _unfit(self, error: Exception) -> BadInput | None:
        """The error for a number outside of a field's bounds."""
        match = re.search(r"^Expected `int`(.*) - at `\$\.(\w+)`$", str(error))
        bounds = None if match is None else next((bounds_of(field) for field in self._body if field.written == match[2]), None)
        if match is None or bounds is None:
            return None
        if "got" in match[1]:
            return BadInput(f"`{match[2]}` is a whole number.", hint="Send it without quotes and without a fraction; see /openapi.json.")
        return BadInput(f"`{match[2]}` is out of range.", hint=f"It goes from {bounds[0]} to {bounds[1]}; see /openapi.json.")

    # -- as the client sends it -----------------------------------------------------------------------------

    def write(self, request: R) -> SentRequest:
        """The address, headers and body that send a request."""
        written = {name: parameter.write(getattr(request, parameter.field)) for name, parameter in self.path.items()}
        named = {name: quote(text, safe="/" if _spreads(self.path[name].segments, text) else "") for name, text in written.items()}
        return SentRequest(
            path=self._operation.path.format(**named),
            query=self._written(request, self.query.values()),
            headers=self._written(request, self.headers),
            body=None if self.body is None else self._write_body(request),
        )

    def _written(self, request: R, parameters: Any) -> dict[str, str]:
        values = {parameter.name: (parameter, getattr(request, parameter.field)) for parameter in parameters}
        return {
            name: parameter.write(value) for name, (parameter, value) in values.items() if value is not None and value != parameter.default
        }

    def _write_body(self, request: R) -> bytes:
        values = {field.written: getattr(request, field.name) for field in self._body}
        return json.encode({name: value for name, value in values.items() if value is not None})


@cache
def shape_of(operation: Operation[R, Any]) -> RequestShape[R]:
    """How the requests of this operation travel."""
    return RequestShape(operation)


def paging_parameters(paging: Paging) -> tuple[Parameter, Parameter]:
    """The parameters that cut a list into pages."""
    pattern = (
        "/".join(["[A-Za-z0-9][A-Za-z0-9._-]{0,248}"] * (len(paging.by) - 1) + ["[0-9]{1,20}"])
        if len(paging.by) != 1 or paging.numbered
        else ""
    )
    text = "Go on where the page before ended: its `next`."
    cursor = Parameter(field="cursor", name="cursor", place="query", text=text, pattern=f"^{pattern}$" if pattern else "")
    limit = Parameter(
        field="limit",
        name="limit",
        place="query",
        text="The most to answer with.",
        kind="number",
        default=paging.usual,
        least=1,
        most=paging.most,
    )
    return limit, cursor


def reason_missing() -> BadInput:
    """The error for a change without a reason."""
    return BadInput("This change needs a reason.", hint='Give one: --why "..." on the command line, `why` over HTTP and in Python.')


def check_reason(why: str | None) -> str:
    """The reason. Errors: `BadInput` where there is none."""
    if not isinstance(why, str) or not re.search(NOT_BLANK, why):
        raise reason_missing()
    return why


def _body(request: type[Request], fields: list[Field]) -> type[msgspec.Struct]:
    described = [
        (field.name, field.kind) if field.default is msgspec.NODEFAULT else (field.name, field.kind, field.default) for field in fields
    ]
    made = msgspec.defstruct(
        request.__name__,
        described,
        kw_only=True,
        frozen=True,
        forbid_unknown_fields=True,
        rename={field.name: field.written for field in fields if field.name != field.written},
    )
    made.__doc__ = request.__doc__
    return made


def _whole(value: Any) -> Any:
    """A number of the body itself: 3.0 is whole, to JSON Schema as to people. Numbers inside of documents stay as they are."""
    if isinstance(value, Decimal | float) and -json.LARGEST <= value <= json.LARGEST and value == int(value):
        return int(value)
    return value


def _pairs(written: bytes) -> list[tuple[str, str]]:
    if _PLAIN.fullmatch(written):
        return [(name, value) for name, _, value in (part.partition("=") for part in written.decode("ascii").split("&"))]
    try:
        return parse_qsl(written.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError:
        raise BadInput("The query of the address cannot be read.", hint="Percent-encode it as UTF-8.") from None


def _spreads(segments: Segments, text: str) -> bool:
    """Whether a variable is written as several segments. A collection whose ~ is left out is one: nothing else says where it ends."""
    return segments == "rest" or (segments == "collection" and text.endswith("~"))
