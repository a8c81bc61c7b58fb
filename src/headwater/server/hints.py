"""Replaces commands in hints by HTTP requests, for clients without a command line.

Errors name the next command (`headwater log create bank`). This turns a command into the request of the same operation, as the tables of
operations tell their commands. A command on files of the server's machine stays as it is.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

import msgspec

from headwater import parts
from headwater.core.errors import HeadwaterError
from headwater.wire.operation import Operation
from headwater.wire.part import PartDefinition
from headwater.wire.problems import Problem, problem_of

_COMMAND = re.compile(r"(`|^ *)headwater ([^`\n]+)", re.MULTILINE)
_OPTION = re.compile(r" --[a-z-]+(?: (?!--)\S+)?")
_VARIABLE = re.compile(r"\{(\w+)\}")
_WORD = re.compile(r"(/?)(\{\w+\}|[^\s{}/]+)")  # beside each other in a path: `wal/7` is a region, and `bank alice` a journal
_EXPECTED = re.compile(r"\bexpected=(\d+)")  # the door's argument, which is a header of the request


class _Command(NamedTuple):
    """A command of an operation, and the query of the request that does the same."""

    pattern: re.Pattern[str]
    words: int
    operation: Operation[Any, Any]
    query: str

    def request(self, variables: dict[str, str | None]) -> str:
        """The request with the command's variables. What the command leaves out is told in capitals."""
        address = f"{self.operation.path}?{self.query}".rstrip("?")
        return f"{self.operation.method} {_VARIABLE.sub(lambda match: variables.get(match[1]) or match[1].upper(), address)}"


def http_problem(error: HeadwaterError, error_id: str) -> Problem:
    """The problem for an error: `hint` names requests, `command` the original commands."""
    problem = problem_of(error, error_id)
    hint = http_hint(error.hint)
    return problem if hint == error.hint else msgspec.structs.replace(problem, hint=hint, command=error.hint)


def http_hint(hint: str) -> str:
    """The hint with requests and headers instead of commands and arguments."""
    named = _COMMAND.sub(lambda match: f"{match[1]}{_request(match[2]) or f'headwater {match[2]}'}", hint)
    return _EXPECTED.sub(r'If-Match: "\1"', named)


def _request(command: str) -> str | None:
    group, _, words = _OPTION.sub("", command).strip().partition(" ")
    for known_command in _commands(parts.PARTS).get((group, words.partition(" ")[0]), ()):
        if match := known_command.pattern.fullmatch(words):
            return known_command.request(match.groupdict())
    return None


@cache
def _commands(definitions: tuple[PartDefinition, ...]) -> dict[tuple[str, str], list[_Command]]:
    """The commands of all operations by their group and first word, those of more words first."""
    by_word: dict[tuple[str, str], list[_Command]] = {}
    for part in definitions:
        for operation in part.operations:
            for words, query in (operation.commands or {_usual(operation): ""}).items():
                count = len(_VARIABLE.sub("", words).split())
                command = _Command(_pattern(words), count, operation, query)
                by_word.setdefault((part.command or part.name, words.partition(" ")[0]), []).append(command)
    for commands in by_word.values():
        commands.sort(key=lambda command: -command.words)
    return by_word


def _usual(operation: Operation[Any, Any]) -> str:
    """The operation's name, and the variables of its path, such as `write {namespace}/{region} {table}`."""
    variables = re.sub(r"(?:^|/)[^{}/]+(?:/[^{}/]+)*(?:/|$)", " ", operation.path)
    return f"{operation.name.replace('_', '-')} {variables}".strip()


def _pattern(words: str) -> re.Pattern[str]:
    """Finds a command. It may leave out the variables at its end, and go on with words of its own."""
    text, ends = "", True
    for between, word in reversed(_WORD.findall(words)):
        variable = _VARIABLE.fullmatch(word)
        before = "[ /]" if between else " "
        text = f"{before}(?P<{variable[1]}>\\S+?){text}" if variable else f"{before}{re.escape(word)}{text}"
        ends = ends and variable is not None
        text = f"(?:{text})?" if ends else text
    return re.compile(f"{text.removeprefix(' ')}(?: .*)?")
