"""Loads settings from `headwater.toml`, the environment and flags; later sources win. Each value keeps its origin."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin

import msgspec

from headwater.core.endpoints import check_endpoint
from headwater.core.errors import BadConfig, BadInput
from headwater.core.period import Period
from headwater.core.sections import ANY_NAME, AnySection, NamedSection, sections_of_parts
from headwater.core.settings import Passed, Secret, Setting, Settings, as_map, every_setting, masked
from headwater.core.units import Duration, Size

FILE = "headwater.toml"
PREFIX = "HEADWATER_"
_ENDPOINTS = frozenset({"kafka.bootstrap", "cassandra.contact_points"})
# Variables that are no settings: the path of the file, the server that commands go to, the token that a client sends, the cache folder,
# and the variables of the development servers (tools/services).
NOT_SETTINGS = frozenset(
    {"HEADWATER_CONFIG", "HEADWATER_SERVER", "HEADWATER_TOKEN", "HEADWATER_CACHE", "HEADWATER_SERVICES", "HEADWATER_IVY_SETTINGS"}
)


class Origin(msgspec.Struct, frozen=True):
    """Where a value came from."""

    kind: Literal["default", "file", "environment", "flag"]
    where: str = ""  # path:line, the variable's name, or the flag

    def __str__(self) -> str:
        return self.where or self.kind


class Flag(msgspec.Struct, frozen=True):
    """A value from the command line, and its option. None: the option was not given."""

    option: str
    value: str | int | Path | None


class Config(msgspec.Struct, frozen=True):
    """Settings with the origin of each value, by dotted key."""

    settings: Settings
    origins: Mapping[str, Origin]
    file: Path | None
    sections: Sequence[AnySection] = ()

    def shown(self) -> Iterator[tuple[str, Any, Origin]]:
        """Every value as it may be printed (units written out, secrets masked) with its origin."""
        for key, value in as_map(self.settings, self.sections).items():
            yield key, _shown(key, value), self.origins.get(key, Origin("default"))


class _Raw(msgspec.Struct, frozen=True):
    key: str
    value: Any
    origin: Origin
    base: Path  # what a relative path is relative to


def load(
    *,
    file: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, Flag] | None = None,
    cwd: Path | None = None,
    sections: Sequence[AnySection] | None = None,
) -> Config:
    """Read all three sources and return all settings.

    `file` (or the variable HEADWATER_CONFIG) must exist when it is named; otherwise `headwater.toml` in `cwd` is read if it is there.
    A relative path in the file is relative to the file's directory, elsewhere to `cwd`. `sections`: those of the parts, when not given.

    Errors: `BadConfig` for a file that cannot be read, an unknown key, or a value that does not fit, with the origin. It checks every
    value, also one that a stronger source replaces; one bad value fails the whole load.
    """
    environ = os.environ if environ is None else environ
    cwd = Path.cwd() if cwd is None else cwd
    sections = sections_of_parts() if sections is None else sections
    known = {setting.key: setting for setting in every_setting(sections)}
    path = _find(file, environ, cwd)
    written = list(_from_file(path, known))
    values: dict[str, Any] = {"data": cwd / Settings().data}
    origins: dict[str, Origin] = {}
    for raw in (*written, *_from_environment(environ, known, cwd, _names(written, known)), *_from_flags(flags or {}, cwd)):
        if raw.value == {} and (_is_section(raw.key, known) or raw.key.partition(".")[0] in _kinds(known)):
            continue
        setting, name = _setting_of(raw, known)
        value = _fit(setting, raw)
        if setting.passed_on:
            values.setdefault(setting.key, Passed())[name] = value
        else:
            values[raw.key] = value
        origins[raw.key] = raw.origin
    _check_directory(values["data"], origins.get("data", Origin("default")))
    settings = _build(values, sections)
    if settings.log.engine == "kafka" and not settings.kafka.bootstrap:
        where = origins.get("log.engine", Origin("default"))
        raise BadConfig(
            f"`log.engine` is kafka ({where}), but no broker is named.",
            hint='Set `kafka.bootstrap`, such as bootstrap = ["broker-1:9092"].',
        )
    if settings.store.engine == "cassandra" and not settings.cassandra.contact_points:
        where = origins.get("store.engine", Origin("default"))
        raise BadConfig(
            f"`store.engine` is cassandra ({where}), but no node is named.",
            hint='Set `cassandra.contact_points`, such as contact_points = ["node-1", "node-2"].',
        )
    return Config(settings=settings, origins=origins, file=path, sections=sections)


def _check_directory(data: Path, origin: Origin) -> None:
    """Errors: `BadConfig` for an address. Taken for a directory, it would be created and look like an empty log."""
    scheme = next((part for part in data.parts if re.fullmatch(r"[a-z][a-z0-9+.-]+:", part)), None)
    if scheme is not None:
        raise BadConfig(
            f"`data` is a directory, and {scheme}//... is an address ({origin}).",
            hint='A server is named with --server or HEADWATER_SERVER, Kafka with [log] engine = "kafka" and [kafka] bootstrap.',
        )


# -- the three sources ------------------------------------------------------------------------------------------


def _find(file: str | Path | None, environ: Mapping[str, str], cwd: Path) -> Path | None:
    named = file if file is not None else environ.get("HEADWATER_CONFIG") or None
    if named is None:
        usual = cwd / FILE
        return usual if usual.is_file() else None
    path = cwd / Path(named).expanduser()
    if not path.is_file():
        raise BadConfig(f"There is no config file {path}.", hint="Name one that exists, or leave --config and HEADWATER_CONFIG out.")
    return path


def _from_file(path: Path | None, known: Mapping[str, Setting]) -> Iterator[_Raw]:
    if path is None:
        return
    try:
        text = path.read_text("utf-8")
        tables = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as problem:
        raise BadConfig(f"The config file {path} cannot be read: {problem}.", hint="It must be a readable UTF-8 text.") from problem
    except tomllib.TOMLDecodeError as problem:
        raise BadConfig(
            f"The config file {path} is no TOML: {problem}.", hint='A line looks like port = 8420 or host = "127.0.0.1".'
        ) from problem
    lines = _lines(text)
    for key, value in _flat(tables, known):
        line = lines.get(key)
        yield _Raw(key, value, Origin("file", f"{path}:{line}" if line else str(path)), path.parent)


def _flat(tables: Mapping[str, Any], known: Mapping[str, Setting], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values. Descends into tables until it meets a setting, and below passed-on settings to the leaves."""
    for name, value in tables.items():
        key = f"{prefix}{name}"
        at = known.get(key)
        if isinstance(value, dict) and value and (at is None or at.passed_on):
            yield from _flat(value, known, f"{key}.")
        else:
            yield key, value


def _lines(text: str) -> dict[str, int]:
    """The line of each key, where a simple scan finds it; an origin may lack a line."""
    numbers: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line):
            section = re.sub(r"[\"'\s]", "", header[1]) + "."
        elif entry := re.match(r"\s*([A-Za-z0-9_.\-\"']+)\s*=", line):
            numbers.setdefault(section + re.sub(r"[\"']", "", entry[1]), number)
    return numbers


def _names(written: Sequence[_Raw], known: Mapping[str, Setting]) -> Mapping[str, list[str]]:
    """The names in the file, by the kind of section."""
    names: dict[str, list[str]] = {}
    for raw in written:
        kind, name, _ = _by_name(raw.key, known)
        if kind and name not in names.setdefault(kind, []):
            names[kind].append(name)
    return names


def _from_environment(
    environ: Mapping[str, str], known: Mapping[str, Setting], cwd: Path, names: Mapping[str, Sequence[str]]
) -> Iterator[_Raw]:
    handed_on = [f"{setting.key}." for setting in known.values() if setting.passed_on]
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS:
            continue
        written = variable.removeprefix(PREFIX).replace("__", ".")
        key = written.lower()
        for prefix in handed_on:
            # Keys of other programs may have capital letters: keys below the prefix stay as written, unless all letters are capitals.
            if key.startswith(prefix) and not (rest := written[len(prefix) :]).isupper():
                key = prefix + rest
        kind, name, field = _by_name(key, known)
        if kind:
            name = written[len(kind) + 1 : -len(field) - 1]
            key = f"{kind}.{_name_meant(name, names.get(kind, ()), variable)}.{field}"
        yield _Raw(key, environ[variable], Origin("environment", variable), cwd)


def _name_meant(written: str, names: Sequence[str], variable: str) -> str:
    """The name that a variable means. Shells allow only capitals, digits and underscores: so a name in capitals means the name in the file
    that is the same apart from case and punctuation, or else itself in small letters."""
    if written != written.upper():
        return written
    like = [name for name in names if re.sub(r"[^A-Z0-9]", "_", name.upper()) == re.sub(r"[^A-Z0-9]", "_", written)]
    if len(like) > 1:
        raise BadConfig(f"{variable} may mean {' or '.join(like)}.", hint="Set it in the config file.")
    return like[0] if like else written.lower()


def _from_flags(flags: Mapping[str, Flag], cwd: Path) -> Iterator[_Raw]:
    for key, flag in flags.items():
        if flag.value is not None:
            yield _Raw(key, str(flag.value), Origin("flag", flag.option), cwd)


# -- from what was written to values ----------------------------------------------------------------------------


def _by_name(key: str, known: Mapping[str, Setting]) -> tuple[str, str, str]:
    """`queue.pages.lease` in its parts; three empty texts when it belongs to no section by name. A name may hold dots."""
    kind, _, rest = key.partition(".")
    name, _, field = rest.rpartition(".")
    pattern = known.get(f"{kind}.{ANY_NAME}.{field}")
    return (kind, name, field) if name and pattern is not None and pattern.named else ("", "", "")


def _kinds(known: Mapping[str, Setting]) -> set[str]:
    """The sections by name: `queue`."""
    return {setting.key.partition(".")[0] for setting in known.values() if setting.named}


def _is_section(key: str, known: Mapping[str, Setting]) -> bool:
    return (key in known and known[key].passed_on) or any(written.startswith(f"{key}.") for written in known)


def _setting_of(raw: _Raw, known: Mapping[str, Setting]) -> tuple[Setting, str]:
    """The setting that a key belongs to, and for passed-on ones the name below it."""
    kind, name, field = _by_name(raw.key, known)
    if kind:
        return known[f"{kind}.{ANY_NAME}.{field}"], name
    if raw.key in known and not known[raw.key].passed_on:
        return known[raw.key], ""
    for setting in known.values():
        if setting.passed_on and raw.key.startswith(f"{setting.key}."):
            return setting, raw.key.removeprefix(f"{setting.key}.")
    section, _, rest = raw.key.partition(".")
    if section in _kinds(known) and "." not in rest:
        raise BadConfig(
            f"`{raw.key}` ({raw.origin}) lacks a name: there is one section [{section}.{ANY_NAME}] for each.",
            hint=f"Write [{section}.{ANY_NAME}] with the name, and its settings below it.",
        )
    if _is_section(raw.key, known):
        raise BadConfig(f"`{raw.key}` ({raw.origin}) is a section, not a value.", hint=f"Write [{raw.key}] and its settings below it.")
    raise _unknown(raw, known)


def _unknown(raw: _Raw, known: Mapping[str, Setting]) -> BadConfig:
    name = raw.key.partition(".")[2].rpartition(".")[0] or ANY_NAME
    keys = [key.replace(f".{ANY_NAME}.", f".{name}.") if setting.named else key for key, setting in known.items()]
    near = difflib.get_close_matches(raw.key, keys, n=1, cutoff=0.6)
    if raw.origin.kind == "environment" and near:
        hint = f"Did you mean {PREFIX}{near[0].replace('.', '__').upper()}?"
    else:
        hint = f"Did you mean `{near[0]}`?" if near else "`headwater config` lists every setting."
    return BadConfig(f"There is no setting `{raw.key}` ({raw.origin}).", hint=hint)


def _fit(setting: Setting, raw: _Raw) -> Any:
    """The value in the setting's type, or `BadConfig`."""
    if raw.value == setting.default == "":  # a text that may be empty
        return ""
    try:
        value = _converted(setting.type, raw)
        least, most = setting.about.least, setting.about.most
        if isinstance(value, int) and ((least is not None and value < least) or (most is not None and value > most)):
            kind = type(value)
            raise BadInput(f"It goes from {kind(least or 0)}" + (f" to {kind(most)}." if most is not None else " upwards."))
        for address in value if setting.key in _ENDPOINTS else ():
            check_endpoint(address)
        return value
    except BadInput as problem:
        name = setting.key.rpartition(".")[2]
        example = (
            f"Write it such as {setting.about.example}." if setting.passed_on else f"Write it such as {name} = {setting.about.example}."
        )
        example = f"{problem.hint} {example}" if problem.hint else example
        shown = masked(raw.key, str(raw.value) if isinstance(raw.value, str) else repr(raw.value))
        raise BadConfig(f"`{raw.key}` cannot be {shown!r} ({raw.origin}): {problem.message}", hint=example) from None


def _converted(kind: Any, raw: _Raw) -> Any:
    value, typed = raw.value, raw.origin.kind == "file"
    if get_origin(kind) is UnionType:
        kind = get_args(kind)[0]
    if kind is Passed:
        return _handed_on(value)
    if kind is bool:
        return _truth(value, typed)
    if kind is int:
        return _integer(value, typed)
    if get_origin(kind) is tuple:
        return _texts(value)
    if kind in (Size, Duration, Period) and isinstance(value, int) and not isinstance(value, bool):
        raise BadInput("A bare number has no unit.")
    if not isinstance(value, str):
        raise BadInput("It is a text in quotes.")
    if not value.strip():
        raise BadInput("It must not be empty.")
    if kind in (Size, Duration, Period):
        return kind.parse(value)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise BadInput(f"It is one of {', '.join(get_args(kind))}.")
        return value
    if kind is Secret:
        return Secret(value)
    return raw.base / Path(value).expanduser() if kind is Path else value


def _handed_on(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise BadInput("It is a text, a number, true or false.")


def _truth(value: Any, typed: bool) -> bool:
    if typed and isinstance(value, bool):
        return value
    if not typed and value.strip().lower() in ("true", "false"):
        return bool(value.strip().lower() == "true")
    raise BadInput("It is true or false.")


def _integer(value: Any, typed: bool) -> int:
    if typed and isinstance(value, int) and not isinstance(value, bool):
        return value
    if not typed and re.fullmatch(r"-?[0-9]{1,18}", value.strip()):
        return int(value)
    raise BadInput("It is a whole number.")


def _texts(value: Any) -> tuple[str, ...]:
    items = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
    if not isinstance(items, list) or not items or not all(isinstance(item, str) and item.strip() for item in items):
        raise BadInput("It is a list of texts, or one text with commas.")
    return tuple(items)


def _build(values: Mapping[str, Any], sections: Sequence[AnySection]) -> Settings:
    given: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        before, _, name = key.rpartition(".")
        given.setdefault(before, {})[name] = value
    brought: dict[str, Any] = {}
    for section in sections:
        if isinstance(section, NamedSection):
            prefix = f"{section.name}."
            mine = [key for key in given if key.startswith(prefix)]
            brought[section.name] = {key.removeprefix(prefix): section.fields(**given.pop(key)) for key in mine}
        elif section.name in given:
            brought[section.name] = section.fields(**given.pop(section.name))
    settings = Settings()
    changed = given.pop("", {})
    changed.update({name: msgspec.structs.replace(getattr(settings, name), **fields) for name, fields in given.items()})
    return msgspec.structs.replace(settings, **changed, sections={name: section for name, section in brought.items() if section})


def _shown(key: str, value: Any) -> Any:
    """A value for printing and JSON: as it would be written in the file, secrets masked."""
    if value is None or type(value) in (int, bool):
        return value
    if isinstance(value, tuple):
        return [masked(key, item) for item in value]
    return masked(key, str(value))
