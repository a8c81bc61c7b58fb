"""Reads the patterns of `like` and `split` into a graph of states.

Characters, `.`, classes `[a-z]` and `[^a-z]`, `\\d \\w \\s \\D \\W \\S`, `\\t \\n \\r`, groups `(…)` and `(?:…)`, `|`, `* + ?`, `{2} {2,}
{2,5}` (each also with `?` behind it), `^ $ \\b \\B`, and `(?i)` at the beginning. Neither back-references nor looking around: what these
need, no machine does in a time that grows with the text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, NoReturn

from headwater.documents.filter.values import EvaluationError

MOST_STATES = 512
MOST_LENGTH = 500
_DEEPEST = 20
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPECIAL = frozenset(".[](){}|*+?^$\\")

CharacterTest = Callable[[str], bool]
Anchor = Literal["^", "$", "b", "B"]


class PatternState(NamedTuple):
    """A state: it passes over a character that fits, or (without a test) leads on where its anchor holds."""

    test: CharacterTest | None
    anchor: Anchor | None
    following: tuple[int, ...]


class PatternGraph(NamedTuple):
    """The states of a pattern. The last is reached where it matches."""

    states: list[PatternState]
    begin: int
    end: int
    ignore_case: bool


def is_word(character: str) -> bool:
    """Whether \\w fits."""
    return character.isalnum() or character == "_"


def plain_text(pattern: str) -> str | None:
    """The text that a pattern without any sign means."""
    return None if _SPECIAL.intersection(pattern) else pattern


def read_pattern(text: str) -> PatternGraph:
    """The states of a pattern. Errors: `EvaluationError` says what is wrong with it."""
    if len(text) > MOST_LENGTH:
        raise EvaluationError(f"a pattern has at most {MOST_LENGTH} characters")
    return _Reader(text).whole()


class _Fragment(NamedTuple):
    """States between two. What follows the fragment is added to its end; a character's state is both its begin and its end."""

    begin: int
    end: int


class _Reader:
    """A reader by recursive descent; repetitions are read again for each copy of their states."""

    def __init__(self, text: str) -> None:
        self.ignore_case = text.startswith("(?i)")
        self._text = text
        self._at = 4 if self.ignore_case else 0
        self._states: list[PatternState] = []
        self._depth = 0

    def whole(self) -> PatternGraph:
        begin, last = self._alternatives()
        if self._at < len(self._text):
            self._fail("a bracket is closed that was not opened")
        end = self._state()
        self._lead(last, end)
        return PatternGraph(self._states, begin, end, self.ignore_case)

    def _alternatives(self) -> _Fragment:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail(f"groups are nested more than {_DEEPEST} deep")
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        self._depth -= 1
        if len(branches) == 1:
            return branches[0]
        end = self._state()
        for branch in branches:
            self._lead(branch.end, end)
        return _Fragment(self._state(following=tuple(branch.begin for branch in branches)), end)

    def _sequence(self) -> _Fragment:
        sequence: _Fragment | None = None
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            part = self._repeated()
            if sequence is not None:
                self._lead(sequence.end, part.begin)
            sequence = _Fragment(part.begin if sequence is None else sequence.begin, part.end)
        if sequence is None:
            state = self._state()
            return _Fragment(state, state)
        return sequence

    def _repeated(self) -> _Fragment:
        at = self._at
        atom = self._atom()
        times = self._times()
        if times is None:
            return atom
        least, most = times
        behind = self._at
        begin = end = self._state()
        last = atom
        for number in range(max(least, 1) if most is None else most):
            copy = atom if number == 0 else self._again(at)
            self._lead(end, copy.begin)
            if number >= least:  # this copy and those behind it may be left out
                self._lead(end, end := self._state())
                self._lead(copy.end, end)
            else:
                end = copy.end
            last = copy
        if most is None:
            self._lead(last.end, last.begin)
        self._at = behind
        return _Fragment(begin, end)

    def _again(self, at: int) -> _Fragment:
        self._at = at
        return self._atom()

    def _times(self) -> tuple[int, int | None] | None:
        times: tuple[int, int | None] | None = None
        if self._take("*"):
            times = 0, None
        elif self._take("+"):
            times = 1, None
        elif self._take("?"):
            times = 0, 1
        elif self._take("{"):
            times = self._counts()
        if times is not None:
            self._take("?")
            if self._at < len(self._text) and self._text[self._at] in "*+?{":
                self._fail("one repetition follows another")
        return times

    def _counts(self) -> tuple[int, int | None]:
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at : max(end, self._at)].partition(",")
        if end < 0 or not _count(least) or (most and not _count(most)):
            self._fail("{ begins a count such as {2} or {2,5}")
        self._at = end + 1
        low, high = int(least), int(most) if most else None if comma else int(least)
        if high is not None and high < low:
            self._fail("the second count is the greater one")
        return low, high

    def _atom(self) -> _Fragment:
        if self._at >= len(self._text):
            self._fail("the pattern ends too early")
        character = self._text[self._at]
        self._at += 1
        match character:
            case "(":
                return self._group()
            case "[":
                return self._passing(self._class())
            case ".":
                return self._passing(lambda each: each != "\n")
            case "^" | "$":
                return self._anchored("^" if character == "^" else "$")
            case "\\":
                return self._escape()
            case "*" | "+" | "?" | "{":
                self._fail("nothing stands before the repetition")
        return self._passing(self._exactly(character))

    def _group(self) -> _Fragment:
        if self._take("?") and not self._take(":"):
            self._fail("a group that begins with (? goes on with a colon")
        inner = self._alternatives()
        if not self._take(")"):
            self._fail("a group is not closed")
        return inner

    def _escape(self) -> _Fragment:
        if self._at < len(self._text) and self._text[self._at] in "bB":
            self._at += 1
            return self._anchored("b" if self._text[self._at - 1] == "b" else "B")
        escaped = self._escaped()
        return self._passing(self._exactly(escaped) if isinstance(escaped, str) else escaped)

    def _escaped(self) -> str | CharacterTest:
        if self._at >= len(self._text):
            self._fail("a backslash ends the pattern")
        character = self._text[self._at]
        self._at += 1
        if character in "dwsDWS":
            return _named_class(character)
        if character in _ESCAPES:
            return _ESCAPES[character]
        if character.isalnum():
            self._fail(f"\\{character} has no meaning")
        return character

    def _class(self) -> CharacterTest:
        negated = self._take("^")
        tests: list[CharacterTest] = []
        first = True
        while first or not self._take("]"):
            first = False
            low = self._class_character()
            if (
                isinstance(low, str)
                and self._text[self._at : self._at + 1] == "-"
                and self._text[self._at + 1 : self._at + 2] not in ("", "]")
            ):
                self._at += 1
                high = self._class_character()
                if not isinstance(high, str) or high < low:
                    self._fail("a range of characters goes from the lesser to the greater")
                tests.append(_between(low, high))
                if self.ignore_case:  # texts are searched in lower case
                    tests.append(_between(low, high, folded=True))
            else:
                tests.append(self._exactly(low) if isinstance(low, str) else low)
        if len(tests) > MOST_STATES:
            self._fail("a class has too many parts")
        return (lambda each: not any(test(each) for test in tests)) if negated else (lambda each: any(test(each) for test in tests))

    def _class_character(self) -> str | CharacterTest:
        if self._at >= len(self._text):
            self._fail("a class is not closed")
        character = self._text[self._at]
        self._at += 1
        return self._escaped() if character == "\\" else character

    def _exactly(self, character: str) -> CharacterTest:
        wanted = character.lower() if self.ignore_case else character
        return lambda each: each == wanted

    # -- states -------------------------------------------------------------------------------------------------

    def _passing(self, test: CharacterTest) -> _Fragment:
        state = self._state(test)
        return _Fragment(state, state)

    def _anchored(self, anchor: Anchor) -> _Fragment:
        state = self._state(anchor=anchor)
        return _Fragment(state, state)

    def _state(self, test: CharacterTest | None = None, anchor: Anchor | None = None, following: tuple[int, ...] = ()) -> int:
        if len(self._states) >= MOST_STATES:
            self._fail("the pattern is too large")
        self._states.append(PatternState(test, anchor, following))
        return len(self._states) - 1

    def _lead(self, state: int, following: int) -> None:
        before = self._states[state]
        self._states[state] = before._replace(following=(*before.following, following))

    def _take(self, character: str) -> bool:
        if self._text.startswith(character, self._at):
            self._at += 1
            return True
        return False

    def _fail(self, problem: str) -> NoReturn:
        raise EvaluationError(f"{problem}, at character {self._at} of the pattern {self._text!r:.60}")


def _count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 3


def _between(low: str, high: str, *, folded: bool = False) -> CharacterTest:
    return (lambda each: low <= each.upper() <= high) if folded else (lambda each: low <= each <= high)


def _named_class(letter: str) -> CharacterTest:
    match letter:
        case "d":
            return str.isdecimal
        case "D":
            return lambda each: not each.isdecimal()
        case "w":
            return is_word
        case "W":
            return lambda each: not is_word(each)
        case "s":
            return str.isspace
    return lambda each: not each.isspace()
