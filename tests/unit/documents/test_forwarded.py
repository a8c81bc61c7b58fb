from __future__ import annotations

import msgspec
import pytest
from tests.unit.documents.ground import draft

from headwater.core.errors import NotOwner
from headwater.documents.forwarded import (
    Forwarded,
    ForwardedAnswer,
    ForwardedBatch,
    ForwardedLook,
    ForwardedRebuild,
    ForwardedWrite,
    RebuiltThere,
    RefusedCall,
    StandingThere,
    WrittenThere,
    decode_answer,
    decode_call,
    encode,
)
from headwater.documents.partition_status import PartitionStanding
from headwater.documents.path import parse_path
from headwater.documents.write import BatchDraft, WrittenDocument
from headwater.wire.problems import problem_of

WRITTEN = WrittenDocument(path=parse_path("a~/1"), revision=7, partition=3, offset=9, created=True, applied=False)
CALLS: list[Forwarded] = [
    ForwardedWrite(draft("patch", "a~/1", {"b": [1, None, "ü"]}, match=(3, 4), none_match=None, key="k", ttl=5)),
    ForwardedWrite(draft("put", "a", {}, match=())),
    ForwardedWrite(draft("delete", "a~")),
    ForwardedBatch(BatchDraft(uri="a~", drafts=(draft("post", "a~", {}), draft("delete", "a~/2")), key="k", source="7")),
    ForwardedRebuild(3),
    ForwardedLook(4),
]
ANSWERS: list[ForwardedAnswer] = [
    RefusedCall(problem_of(NotOwner("No.", address="http://there", hint="Ask there."), "")),
    WrittenThere((WRITTEN, WRITTEN)),
    RebuiltThere(),
    StandingThere(PartitionStanding(partition=4, state="Active", end=9, applied=8, queued=1)),
]


@pytest.mark.parametrize("call", CALLS)
def test_every_call_comes_as_it_was_sent(call: Forwarded) -> None:
    assert decode_call(encode(call)) == call


@pytest.mark.parametrize("answer", ANSWERS)
def test_every_answer_comes_as_it_was_sent(answer: ForwardedAnswer) -> None:
    assert decode_answer(encode(answer)) == answer


def test_what_is_no_call_is_refused() -> None:
    for payload in (b"", b"\x91\x63", encode([99])):
        with pytest.raises(msgspec.MsgspecError):
            decode_call(payload)
