"""Random histories of a partition's journals, as records of the log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import strategies as st

from headwater.journal.action import Action, ActionRecord, Append, Delete, Mark, PayloadMetadata, Purge
from headwater.journal.event import NumberedEvent, Payload, PayloadKind
from headwater.journal.event_bodies import encode_events
from headwater.journal.wire import write_record
from headwater.log.record import Record
from headwater.testing.journal_model import JournalModel

GOLDEN = Path(__file__).resolve().parents[4] / "shared" / "golden" / "kafka-journal"


def golden_files(pattern: str) -> list[Path]:
    return sorted(GOLDEN.glob(pattern))


def need_golden() -> None:
    if not GOLDEN.is_dir():
        pytest.skip("the golden data of kafka-journal does not lie beside the repository")


class Step(msgspec.Struct, frozen=True):
    """One record of a history. `expire_after`: of an Append."""

    id: str
    action: Action
    expire_after: int | None = None

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(range(self.action.first, self.action.last + 1)) if isinstance(self.action, Append) else ()


def _append(first: int, more: int) -> Append:
    return Append(first, first + more, "json", f"host-{first}", "0.1")


actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(_append, st.integers(1, 8), st.integers(0, 3)),
    st.builds(_append, st.integers(1, 3), st.integers(0, 1)),
    st.builds(Delete, st.integers(1, 12)),
    st.just(Purge()),
    st.just(Mark("m")),
)
steps = st.builds(Step, st.sampled_from(["alice", "bob"]), actions, st.sampled_from([None, None, 60_000, 86_400_000]))
histories = st.lists(steps, max_size=12)


def timestamp_of(offset: int) -> int:
    """Not ordered as offsets are: clocks of writers differ."""
    return 1_700_000_000_000 + offset * 977 % 5_000_000_000


def action_record(step: Step, offset: int) -> ActionRecord:
    return ActionRecord(step.id, step.action, offset, timestamp_of(offset))


def log_record(step: Step, offset: int) -> Record:
    """The record as the log gives it. Each event's payload names its place, so that none can be taken for another."""
    action, value = step.action, None
    if isinstance(action, Append):
        events = [NumberedEvent(number, Payload(PayloadKind.JSON, b'"%d:%d"' % (offset, number))) for number in step.numbers]
        payload_type, value = encode_events(events, PayloadMetadata(step.expire_after))
        assert payload_type == action.payload_type
    return msgspec.structs.replace(write_record(step.id, action, value=value, timestamp=timestamp_of(offset)), offset=offset)


def modelled(history: Sequence[Step]) -> JournalModel:
    model = JournalModel()
    for offset, step in enumerate(history):
        model.add(action_record(step, offset), step.numbers, step.expire_after)
    return model
