"""The options of an adaptor, declared once: the fields of its class, each with a type, a default and a sentence that says what it means.

From that declaration come the function that pipelines call, its checks and its errors, `headwater pipeline about`, the table in the
reference and the types that editors see.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from headwater.core.errors import BadConfig, BadInput
from headwater.core.units import Duration, Size
from headwater.pipeline.env import Env
from headwater.pipeline.strict import strict
from headwater.pipeline.values import Decimals

if TYPE_CHECKING:
    from headwater.pipeline.adaptor import Adaptor

    Made = TypeVar("Made", bound=Adaptor)

Names = tuple[str, ...]  # given as one name, or as several
Texts = dict[str, str | Env]


class Means(msgspec.Struct, frozen=True):
    """What an option is for, in one sentence, and between which numbers it may be. A field without one is no option."""

    text: str
    least: int | None = None
    most: int | None = None
    path: bool = False  # it names a file or folder: a relative path is one in the folder of the run (`headwater.pipeline.run_folder`)
    files: tuple[str, ...] = ()  # the parameters of an address, or the ends of names in a mapping, that do


DecimalsOption = Annotated[
    Decimals, Means("What numbers of the text with a point or an exponent become: `decimal`, which keeps every digit, or `float`.")
]


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option of an adaptor."""

    name: str
    kind: Any  # the field's type
    default: Any  # as a person would write it; `inspect.Parameter.empty` where there is none
    means: Means

    @property
    def accepts(self) -> Any:
        """The type of what a person may give."""
        if self.kind == Names:
            return str | Sequence[str]
        if get_origin(self.kind) is dict:
            return Mapping[*get_args(self.kind)] | None  # type: ignore[misc]
        return str if self.kind in (Size, Duration) else self.kind

    def kept(self, call: str, given: Any) -> Any:
        """The field's value. Errors: `BadConfig` for what is not of the option's type; it never shows text, which may be a secret."""
        if self.kind == Names and isinstance(given, str):
            return (given,)
        if given is None and get_origin(self.kind) in (dict, tuple):
            return get_origin(self.kind)()
        if get_origin(self.kind) is Literal and given not in get_args(self.kind):
            raise BadConfig(f"{call}() knows no {self.name} {given!r}.", hint=f"Use one of {', '.join(get_args(self.kind))}.")
        try:
            if self.kind in (Size, Duration):
                value: Any = self.kind.parse(msgspec.convert(given, str))
            else:
                value = msgspec.convert(dict(given) if isinstance(given, Mapping) else given, self.kind)
        except (msgspec.ValidationError, BadInput):
            raise self._wrong(given) from None
        least, most = self.means.least, self.means.most
        if isinstance(value, int) and ((least is not None and value < least) or (most is not None and value > most)):
            raise self._wrong(given)
        return value

    def _wrong(self, given: Any) -> BadConfig:
        what = repr(given) if isinstance(given, bool | int | float | None) or self.kind in (Size, Duration) else f"a {type(given).__name__}"
        if isinstance(given, Mapping):  # its names may be shown, its values may be secrets
            wrong = next((name for name, value in given.items() if not isinstance(name, str) or not isinstance(value, str | Env)), None)
            return BadConfig(f"{self.name} holds {wrong!r}, which is no text, or whose value is none.", hint=f"Give {self._wanted()}.")
        return BadConfig(f"{self.name} cannot be {what}.", hint=f"Give {self._wanted()}.")

    def _wanted(self) -> str:
        least, most = self.means.least, self.means.most
        if self.kind in (Size, Duration):
            noun = "a size" if self.kind is Size else "a time"
            return f'{noun} from {self.kind(least)} to {self.kind(most)}, such as "{self.default}"'
        if self.kind in (int, int | None):
            return "a whole number" if least is None else f"a whole number from {least} to {most}"
        if get_origin(self.kind) is dict:
            return f'names with their values, as text: {self.name}={{"name": "value"}}'
        return "True or False" if self.kind is bool else "a name, or a list of names" if self.kind == Names else "text"


def options_of(made: type[msgspec.Struct]) -> dict[str, Option]:
    """The options that a class declares, by name, in the order of their declaration."""
    options = {}
    for field in msgspec.structs.fields(made):
        if get_origin(field.type) is Annotated:
            kind, *more = get_args(field.type)
            means = next((annotation for annotation in more if isinstance(annotation, Means)), None)
            if means is not None:
                options[field.name] = Option(name=field.name, kind=kind, default=_default(field), means=means)
    return options


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.required:
        return inspect.Parameter.empty
    if field.default_factory is not msgspec.NODEFAULT:
        return None
    value = field.default
    if isinstance(value, tuple):
        return value[0] if len(value) == 1 else value
    return str(value) if isinstance(value, Size | Duration) else value


def factory(made: type[Made]) -> Callable[..., Made]:
    """The function that makes an adaptor of its options. The first one may be given without its name.

    Errors of the function: `BadConfig` for an option that there is not, with the one that was probably meant, for a value of another type,
    and whatever the class itself finds wrong.
    """
    options, call = options_of(made), made.kind
    parameters = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY if number else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=option.default,
            annotation=option.accepts,
        )
        for number, option in enumerate(options.values())
    ]
    signature = inspect.Signature(parameters, return_annotation=made)

    def make(*args: Any, **kwargs: Any) -> Made:
        arguments = signature.bind(*args, **kwargs).arguments
        return made(**{name: options[name].kept(call, value) for name, value in arguments.items()}).checked()

    make.__name__ = make.__qualname__ = call
    make.__module__ = made.__module__
    make.__doc__ = f"{made.about.summary}\n\n" + "\n".join(f"{option.name}: {option.means.text}" for option in options.values())
    make.__signature__ = signature  # type: ignore[attr-defined]
    return strict(make)


def spelled(kind: Any) -> str:
    """A type as it is written in Python."""
    if get_origin(kind) in (Union, UnionType):
        return " | ".join(map(spelled, get_args(kind)))
    if get_origin(kind) is Literal:
        return "Literal[" + ", ".join(f'"{choice}"' for choice in get_args(kind)) + "]"
    if get_args(kind):
        return f"{get_origin(kind).__name__}[{', '.join(map(spelled, get_args(kind)))}]"
    return "None" if kind is type(None) else str(kind.__name__)
