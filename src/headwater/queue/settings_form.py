"""The settings of a queue as JSON: each by its name, durations and sizes with their units."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from headwater.core.disposal import DISPOSALS
from headwater.core.errors import BadInput
from headwater.core.period import Period
from headwater.core.settings import Note
from headwater.core.spelling import nearest
from headwater.core.units import Duration, Size
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.settings import QueueSettings


class _SettingForm(msgspec.Struct, frozen=True):
    """The type of a setting, and what its note says."""

    kind: type
    note: Note
    default: Any

    @property
    def numeric(self) -> bool:
        return self.kind is int


def _forms() -> dict[str, _SettingForm]:
    hints, forms = get_type_hints(EffectiveSettings, include_extras=True), dict[str, _SettingForm]()
    for field in msgspec.structs.fields(EffectiveSettings):
        hint = hints[field.name]
        assert get_origin(hint) is Annotated
        kind, note = get_args(hint)[0], next(annotation for annotation in get_args(hint)[1:] if isinstance(annotation, Note))
        kinds = [member for member in get_args(kind) if member is not type(None)] if type(None) in get_args(kind) else [kind]
        forms[field.name] = _SettingForm(kinds[0] if isinstance(kinds[0], type) else str, note, field.default)
    return forms


_FORMS = _forms()
NAMES = tuple(_FORMS)


def schema() -> dict[str, Any]:
    """The JSON object of settings, for OpenAPI."""
    properties = {name: {"type": "integer" if form.numeric else "string", "description": form.note.text} for name, form in _FORMS.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def read_settings(written: Mapping[str, Any], base: EffectiveSettings) -> EffectiveSettings:
    """`base` with what is written. Errors: `BadInput` for an unknown setting (with the nearest known one) and a value that cannot be."""
    values: dict[str, Any] = {}
    for name, value in written.items():
        if name not in _FORMS:
            raise BadInput(f"{name!r} is no setting of a queue.", hint=nearest(name, _FORMS))
        values[name] = _read(name, _FORMS[name], value)
    return msgspec.structs.replace(base, **values)


def show_settings(settings: EffectiveSettings) -> dict[str, Any]:
    """Every setting that is set, with its unit."""
    shown = {name: _show(getattr(settings, name)) for name in _FORMS}
    return {name: value for name, value in shown.items() if value is not None}


def given_settings(settings: object) -> dict[str, Any]:
    """The settings that Python code gives, as they are sent. Errors: `BadInput` for a value that cannot be, and what are no settings."""
    if not isinstance(settings, QueueSettings):
        raise BadInput(f"{settings!r:.60} are no settings of a queue.", hint='Write them such as QueueSettings(lease="60s").')
    return {name: _show(_read(name, _FORMS[name], _in_text(name, value))) for name, value in settings.given.items()}


def _in_text(name: str, value: object) -> object:
    """A span of time in milliseconds, as text. Errors: `BadInput` for one of less than a millisecond's grain."""
    if not isinstance(value, timedelta):
        return value
    milliseconds, rest = divmod(value, timedelta(milliseconds=1))
    if rest or milliseconds < 0:
        raise BadInput(f"{name} cannot be {value!r}.", hint="Give a whole number of milliseconds, from 0 on.")
    return str(Duration(milliseconds))


def _read(name: str, form: _SettingForm, value: Any) -> Any:
    example = form.note.example.strip('"')
    hint = f"Write it such as {name}={form.note.example}: {form.note.text}"
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise BadInput(f"{name} cannot be {value!r:.60}.", hint=hint)
    if form.numeric:
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value)
        if not isinstance(value, int):
            raise BadInput(f"{name} is a whole number, not {value!r:.60}.", hint=hint)
        number, read = value, value
    elif issubclass(form.kind, Duration | Size):
        read = value if isinstance(value, form.kind) else form.kind.parse(_text(name, value, example))
        number = int(read)
    elif issubclass(form.kind, Period):
        return value if isinstance(value, Period) else Period.parse(_text(name, value, example))
    elif name == "disposal":
        if value not in DISPOSALS:
            raise BadInput(f"{name} cannot be {value!r:.60}.", hint=f"It is one of {', '.join(DISPOSALS)}.")
        return value
    else:
        return _text(name, value, example)
    least, most = form.note.least, form.note.most
    if (least is not None and number < least) or (most is not None and number > most):
        bounds = f"from {_show(form.kind(least or 0))}" + ("" if most is None else f" to {_show(form.kind(most))}")
        raise BadInput(f"{name} cannot be {value}.", hint=f"It goes {bounds}.")
    return read


def _text(name: str, value: Any, example: str) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{name}={value!r} has no unit.", hint=f"Write it with its unit, such as {example}.")
    return value


def _show(value: Any) -> Any:
    return str(value) if isinstance(value, Duration | Size | Period) else value
