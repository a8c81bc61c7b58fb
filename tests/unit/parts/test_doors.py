"""Every operation has a method of the door with the fields of its request as parameters, and a command; or a written reason why not."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest
import typer
from tests.unit.parts.door_tables import BOUND, CLASSES, COMMANDS, DIFFERENT, HEADERS, NO_COMMAND, NO_METHOD

from headwater import parts
from headwater.cli.app import app
from headwater.wire.operation import Operation
from headwater.wire.part import load

EVERY = list(parts.operations())


def ids(operation: Operation[Any, Any]) -> str:
    return operation.id


def methods(operation: Operation[Any, Any]) -> Iterator[tuple[type, Any]]:
    """The door's methods of an operation's name, each with its class."""
    name, classes = operation.name, door_classes(operation.part)
    for (part, prefix), (owner, renamed) in CLASSES.items():
        if operation.part == part and operation.name.startswith(prefix):
            verb = operation.name.removeprefix(prefix)
            name, classes = renamed.get(verb, verb), [owner]
            break
    return ((kind, getattr(kind, name)) for kind in classes if callable(getattr(kind, name, None)))


@cache
def door_classes(part: str) -> list[type]:
    """The class that the door offers of a part, and those that its calls return."""
    module = inspect.getmodule(load(parts.part_named(part).offers))
    return [kind for _, kind in inspect.getmembers(module, inspect.isclass) if kind.__module__.startswith("headwater.client.")]


def differences(operation: Operation[Any, Any], owner: type, method: Any) -> tuple[frozenset[str], frozenset[str]]:
    """The fields of the request that are no parameters, and the parameters that are no fields. What the object holds counts as a field
    that is given, and a header as its parameter."""
    fields = {field.name for field in msgspec.structs.fields(operation.request)}
    taken = set(list(inspect.signature(method).parameters)[1:])
    held = set(re.findall(r"self\._?(\w+)", inspect.getsource(owner)))
    held |= {field for field, name in BOUND.items() if name in held}
    lacking = fields - taken - held
    beyond = taken - fields
    for field, parameter in HEADERS.items():
        if field in lacking:
            lacking.discard(field)
            beyond.discard(parameter)
    return frozenset(lacking), frozenset(beyond)


@pytest.mark.parametrize("operation", EVERY, ids=ids)
def test_every_operation_has_a_method_of_the_door(operation: Operation[Any, Any]) -> None:
    found = [differences(operation, owner, method) for owner, method in methods(operation)]
    assert bool(found) != (operation.id in NO_METHOD), operation.id
    if found:
        lacking, beyond, _ = DIFFERENT.get(operation.id, ("", "", ""))
        assert (frozenset(lacking.split()), frozenset(beyond.split())) in found


@cache
def commands() -> dict[str, set[str]]:
    """Every command, with the verbs and options that it takes."""
    found: dict[str, set[str]] = {}

    def walk(command: Any, path: tuple[str, ...]) -> None:
        verbs = {verb for parameter in command.params for verb in (parameter.metavar or "").split("|")}
        found[" ".join(path)] = verbs | {option for parameter in command.params for option in parameter.opts}
        for name, below in getattr(command, "commands", {}).items():
            walk(below, (*path, name))

    walk(typer.main.get_command(app()), ())
    return found


def is_there(words: list[str]) -> bool:
    """Whether there is such a command: its last words may be verbs and options of the one before."""
    for length in range(len(words), 1, -1):
        if (takes := commands().get(" ".join(words[:length]))) is not None:
            return takes >= set(words[length:])
    return False


@pytest.mark.parametrize("operation", EVERY, ids=ids)
def test_every_operation_has_a_command(operation: Operation[Any, Any]) -> None:
    part = parts.part_named(operation.part)
    named = [COMMANDS[operation.id]] if operation.id in COMMANDS else list(operation.commands) or [operation.name.replace("_", "-")]
    found = [[part.command or part.name, *(word for word in words.split() if "{" not in word)] for words in named]
    assert all(is_there(words) for words in found) != (operation.id in NO_COMMAND), found


def test_the_tables_name_operations() -> None:
    named = {*NO_METHOD, *NO_COMMAND, *DIFFERENT, *COMMANDS}
    assert named - {operation.id for operation in EVERY} == set()
    assert all(len(reason) > 20 for reason in [*NO_METHOD.values(), *NO_COMMAND.values(), *(row[2] for row in DIFFERENT.values())])
