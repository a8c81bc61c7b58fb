"""What is said of a pipeline, made of what is stored."""

from __future__ import annotations

import pytest

from headwater.pipeline.offsets.state import Dead, Entry, Failure
from headwater.pipeline.operating import answers


@pytest.mark.parametrize(("ms", "text"), [(0, None), (1, "1970-01-01T00:00:00.001Z"), (1 << 62, None)])
def test_moments_are_texts(ms: int, text: str | None) -> None:
    assert answers.moment(ms) == text


def test_what_is_stored_is_said_with_its_time_as_text() -> None:
    failure = Failure(offset=4, error="E", message="m", hint="h", trace="t", at=1, start=2, end=6)
    assert answers.answer_of(answers.Refusal, failure) == answers.Refusal(
        offset=4, error="E", message="m", hint="h", trace="t", at="1970-01-01T00:00:00.001Z", start=2, end=6
    )
    dead = Dead(sink="s", offset=4, error="E", message="m", tries=3)
    assert answers.answer_of(answers.Buried, dead) == answers.Buried(sink="s", offset=4, error="E", message="m", at=None, tries=3)
    entry = Entry(at=1, who="ann", what="ack", details={"offset": 4})
    said = answers.answer_of(answers.Audited, entry)
    assert (said.at, said.who, said.what, said.details) == ("1970-01-01T00:00:00.001Z", "ann", "ack", {"offset": 4})
