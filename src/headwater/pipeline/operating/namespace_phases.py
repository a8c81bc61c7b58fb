"""How far each namespace of a source is read: its phase and its cursor."""

from __future__ import annotations

from typing import Any

from headwater.pipeline.offsets.state import SOURCE, ReaderState, State
from headwater.pipeline.operating.answers import NamespacePhase


def namespace_phases(state: State) -> list[NamespacePhase]:
    """Those of the plan, and those whose messages a sink has taken; by name."""
    reader = state.reader
    if reader is None:
        return []
    slices: dict[str, list[int]] = {name: [] for name in state.ids}
    for names in state.taken.values():
        slices |= {name: [] for name in names}
    for number, part in enumerate(reader.plan.get("slices", ())):
        slices.setdefault(part["namespace"], []).append(number)
    finished = {number for a, b in reader.finished for number in range(a, b)}
    cursor: Any = reader.cursor if follows(state) else None
    if isinstance(cursor, dict) and cursor.keys() <= slices.keys():  # the source keeps one for each namespace
        return [_phase(reader, name, slices[name], finished, cursor.get(name)) for name in sorted(slices)]
    return [_phase(reader, name, slices[name], finished, cursor) for name in sorted(slices)]


def follows(state: State) -> bool:
    """Whether the changes of the source are followed behind its copy, by its last run."""
    known = state.defined.get(SOURCE)
    followed = known.follows if known is not None else None
    return state.reader is not None and (state.reader.cursor is not None if followed is None else followed)


def _phase(reader: ReaderState, name: str, slices: list[int], finished: set[int], cursor: Any) -> NamespacePhase:
    done = sum(number in finished for number in slices)
    fields: dict[str, Any] = {"namespace": name, "slices": len(slices), "finished": done}
    if done < len(slices):
        begun = [reader.positions[str(number)] for number in slices if str(number) in reader.positions]
        return NamespacePhase(phase="copy", cursor=begun or None, **fields)
    # The changes of a namespace are read once the copies of all are.
    return NamespacePhase(phase="sync" if cursor is not None and reader.copied else "complete", cursor=cursor, **fields)
