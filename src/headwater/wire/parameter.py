"""Parameters of an address, made from the fields of a request: reads them from text and describes them for OpenAPI."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from headwater.core.errors import BadInput
from headwater.wire.json import LARGEST
from headwater.wire.operation import Place, Request
from headwater.wire.times import read_time

_LARGEST_ID = (1 << 64) - 1  # of a number that is described as `unsigned`: msgspec knows no bound above LARGEST
ParameterKind = Literal["number", "text", "time", "flag"]
Segments = Literal["one", "rest", "collection"]
"""How much of the path a variable takes: one segment; all that are left; or those up to the last that ends with ~, and where none does,
one segment in which an encoded slash is a slash."""
_NUMBER = re.compile(r"([0-9]{1,20})(?:\.0+)?")  # 3.0 is a whole number, to JSON Schema as to people


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the path, a parameter of the query, or a header. `default` None: it may be left out, and then the operation decides."""

    field: str
    name: str
    place: Place
    text: str = ""
    kind: ParameterKind = "text"
    default: Any = None
    required: bool = False
    least: int = 0
    most: int = LARGEST
    choices: tuple[str, ...] = ()
    pattern: str = ""
    segments: Segments = "one"

    def read(self, written: str) -> Any:
        """The value that a text means. Errors: `BadInput` naming the parameter."""
        if self.kind == "number":
            return self._number(written)
        if self.kind == "time":
            number = _NUMBER.fullmatch(written)
            return read_time(int(number[1]) if number else written)
        if self.pattern and not re.search(self.pattern, written):
            raise BadInput(f"`{self.name}` cannot be {written!r}.", hint=self.text)
        choices = ("true", "false") if self.kind == "flag" else self.choices
        if choices and written not in choices:
            raise BadInput(f"`{self.name}` cannot be {written!r}.", hint=f"It is one of {', '.join(choices)}.")
        return written == "true" if self.kind == "flag" else written

    def _number(self, written: str) -> int:
        # "-3" is a number out of range rather than no number: report the former.
        match = _NUMBER.fullmatch(written.removeprefix("-"))
        if not match and self.place == "path":
            raise BadInput(f"The {self.name} is a whole number, not {written!r}.", hint=self.text or "It counts from 0.")
        if not match:
            raise BadInput(f"`{self.name}` is a whole number, not {written!r}.", hint=f"Write it such as {self.name}={self.least}.")
        number = -int(match[1]) if written.startswith("-") else int(match[1])
        if not self.least <= number <= self.most:
            if self.place == "path":
                raise BadInput(f"The {self.name} is a whole number, not {written!r}.", hint=self.text or "It counts from 0.")
            raise BadInput(f"`{self.name}` cannot be {number}.", hint=f"It goes from {self.least} to {self.most}.")
        return number

    def write(self, value: Any) -> str:
        """The text that means a value."""
        return str(value).lower() if self.kind == "flag" else str(value)

    def schema(self) -> dict[str, Any]:
        """The parameter as OpenAPI writes it."""
        whole = {"type": "integer", "minimum": self.least}
        if self.place != "path":
            whole["maximum"] = self.most
        kind: dict[str, Any] = whole if self.kind == "number" else {"type": "string"}
        if self.kind == "time":
            kind = {"anyOf": [whole, {"type": "string", "format": "date-time"}]}
        if self.pattern:
            kind["pattern"] = self.pattern
        if self.choices or self.kind == "flag":
            kind["enum"] = list(self.choices) or ["true", "false"]
        if self.default is not None:
            kind["default"] = self.write(self.default) if self.kind == "flag" else self.default
        described = {"name": self.name, "in": self.place, "required": self.required, "schema": kind}
        return {**described, "description": self.text} if self.text else described


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a request: where it travels, and its parameter unless that is the body."""

    name: str
    written: str
    place: Place
    kind: Any
    default: Any
    parameter: Parameter | None


def fields_of(request: type[Request], method: str, path: str) -> Iterator[Field]:
    """The fields of a request as they travel with a method to a path."""
    inside = set(re.findall(r"{(\w+)}", path))
    hints = get_type_hints(request, include_extras=True)
    usual: Place = "query" if method in ("GET", "DELETE") else "body"
    for field in msgspec.structs.fields(request):
        kind, meta = _unwrapped(hints[field.name])
        extra = {} if meta is None else meta.extra or {}
        place: Place = "path" if field.encode_name in inside else extra.get("in", usual)
        written = extra.get("name", field.encode_name)
        parameter = None if place == "body" else _parameter(field, kind, meta, place, written)
        yield Field(name=field.name, written=written, place=place, kind=hints[field.name], default=_default(field), parameter=parameter)
        inside.discard(field.encode_name)
    if inside:
        raise TypeError(f"{request.__name__} lacks {', '.join(sorted(inside))} of {path}")


def bounds_of(field: Field) -> tuple[int, int] | None:
    """The least and the most that a number may be; None for a field that is no whole number."""
    kind, meta = _unwrapped(field.kind)
    if kind is not int:
        return None
    return (
        -LARGEST if meta is None or meta.ge is None else int(meta.ge),
        LARGEST if meta is None or meta.le is None else int(meta.le),
    )


def _unwrapped(hint: Any) -> tuple[Any, msgspec.Meta | None]:
    """The bare type and its `Meta`; `X | None` is X, because a field that is None does not travel."""
    meta = None
    if get_origin(hint) is Annotated:
        hint, *annotations = get_args(hint)
        meta = next((annotation for annotation in annotations if isinstance(annotation, msgspec.Meta)), None)
    if get_origin(hint) in (Union, UnionType):
        rest = [annotation for annotation in get_args(hint) if annotation is not NoneType]
        if len(rest) == 1:
            inner, inner_meta = _unwrapped(rest[0])
            return inner, meta or inner_meta
    return hint, meta


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _parameter(field: msgspec.structs.FieldInfo, kind: Any, meta: msgspec.Meta | None, place: Place, written: str) -> Parameter:
    meta = meta or msgspec.Meta()
    extra = meta.extra or {}
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    kinds: dict[Any, ParameterKind] = {int: "time" if extra.get("time") else "number", bool: "flag", str: "text"}
    if not choices and kind not in kinds:
        raise TypeError(f"{field.name} cannot travel in the {place}: it is {kind}")
    default = _default(field)
    return Parameter(
        field=field.name,
        name=written,
        place=place,
        text=meta.description or "",
        kind=kinds.get(kind, "text"),
        default=None if default is msgspec.NODEFAULT else default,
        required=default is msgspec.NODEFAULT,
        least=0 if meta.ge is None else int(meta.ge),
        most=_LARGEST_ID if extra.get("unsigned") else LARGEST if meta.le is None else int(meta.le),
        choices=choices,
        pattern=meta.pattern or "",
        segments=extra.get("segments", "one"),
    )
