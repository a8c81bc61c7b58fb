"""Matches patterns in a time that grows with the text and with nothing else: all states that the text may have reached go on together.

Sets of states and the characters that lead from one to the next are remembered, within a bound, so that most characters cost a look-up.
"""

from __future__ import annotations

from functools import lru_cache

from headwater.documents.filter.meter import StepMeter
from headwater.documents.filter.pattern_syntax import PatternGraph, is_word, plain_text, read_pattern

_REMEMBERED = 10_000  # states in remembered sets of one pattern: about a megabyte at worst
_STATES_PER_STEP = 4
_END = ""  # in place of a character behind the last

# Where a set of states stands: the states, and what came before: "" for nothing, else the character's kind.
_Place = tuple[frozenset[int], str]


class Pattern:
    """A pattern, ready to search texts. Safe to use from several threads: what it remembers is only ever replaced."""

    def __init__(self, text: str) -> None:
        self._plain = plain_text(text)
        graph = read_pattern(text)
        self._graph: PatternGraph = graph
        self._cost = 1 + len(graph.states) // _STATES_PER_STEP
        self._known: dict[tuple[_Place, str, bool], tuple[bool, _Place]] = {}
        self._size = 0

    def found(self, text: str, meter: StepMeter) -> bool:
        """Whether some part of the text fits. Errors: `EvaluationError` where the row has no steps left."""
        if self._plain is not None:
            meter.read(len(text))
            return self._plain in text
        return self._end(text, 0, meter, anywhere=True) is not None

    def split(self, text: str, meter: StepMeter) -> list[str]:
        """The parts between the leftmost and longest parts that fit; empty ones at the end are left out."""
        if self._plain:
            meter.read(len(text))
            parts = text.split(self._plain)
            meter.take(len(parts))
        else:
            parts = self._parts(text, meter)
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
        return parts

    def _parts(self, text: str, meter: StepMeter) -> list[str]:
        parts: list[str] = []
        begin = at = 0
        while at < len(text):
            end = self._end(text, at, meter, anywhere=False)
            if end is None or (end == at and at == begin):  # an empty fit divides characters, and makes no empty part
                at += 1
                continue
            parts.append(text[begin:at])
            begin = end
            at = end if end > at else at + 1
        parts.append(text[begin:])
        return parts

    def _end(self, text: str, begin: int, meter: StepMeter, *, anywhere: bool) -> int | None:
        """The end of the longest part that fits from a character on; of any part behind it (`anywhere`), at once where one is found."""
        fold = self._graph.ignore_case
        place: _Place = frozenset((self._graph.begin,)), _kind(text[begin - 1]) if begin else ""
        ended: int | None = None
        for at in range(begin, len(text) + 1):
            if not place[0]:
                return ended
            meter.take(self._cost)
            character = _END if at == len(text) else text[at].lower() if fold else text[at]
            fits, place = self._step(place, character, anywhere)
            if fits:
                if anywhere:
                    return at
                ended = at
        return ended

    def _step(self, place: _Place, character: str, anywhere: bool) -> tuple[bool, _Place]:
        """Whether the pattern may end before a character, and where it stands behind it."""
        key = place, character, anywhere
        outcome = self._known.get(key)
        if outcome is None:
            reached = self._closure(place, character)
            states = self._graph.states
            following = {
                state
                for number in reached
                if (test := states[number].test) and character and test(character)
                for state in states[number].following
            }
            if anywhere:
                following.add(self._graph.begin)
            outcome = self._graph.end in reached, (frozenset(following), _kind(character))
            self._size += 1 + len(following)
            if self._size > _REMEMBERED:
                self._known, self._size = {}, 0
            self._known[key] = outcome
        return outcome

    def _closure(self, place: _Place, character: str) -> set[int]:
        """The states that are reached without a character between what came before and what comes next."""
        begun, before = place
        after = _kind(character)
        reached = set(begun)
        waiting = list(begun)
        while waiting:
            state = self._graph.states[waiting.pop()]
            if state.test is None and (state.anchor is None or _holds(state.anchor, before, after)):
                fresh = [number for number in state.following if number not in reached]
                reached.update(fresh)
                waiting.extend(fresh)
        return reached


@lru_cache(maxsize=64)
def pattern(text: str) -> Pattern:
    """The pattern of a text. Errors: `EvaluationError` says what is wrong with it."""
    return Pattern(text)


def _kind(character: str) -> str:
    if not character:
        return ""
    return "word" if is_word(character) else "other"


def _holds(anchor: str, before: str, after: str) -> bool:
    match anchor:
        case "^":
            return before == ""
        case "$":
            return after == ""
    return ((before == "word") != (after == "word")) == (anchor == "b")
