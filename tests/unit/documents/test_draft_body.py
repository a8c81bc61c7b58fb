from __future__ import annotations

import msgspec
import pytest
from tests.unit.documents.ground import draft

from headwater.core.document_errors import CollectionPut, UnfitBody
from headwater.core.errors import BadInput, BadMethod, TooLarge
from headwater.documents.draft_body import LONGEST_LIFE, read_batch, read_draft
from headwater.documents.write import BatchDraft, Draft


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        (draft("put", "c~", {}), CollectionPut),
        (draft("patch", "c~", {}), BadMethod),
        (draft("post", "a", {}), BadMethod),
        (draft("post", "c~/1", {}), BadMethod),
        (draft("put", "a", 1, ttl=0), BadInput),
        (draft("put", "a", 1, ttl=LONGEST_LIFE + 1), BadInput),
        (draft("put", "a", 1, key="k" * 1025), BadInput),
        (draft("put", "a", 1, key="a\nb"), BadInput),
        (msgspec.structs.replace(draft("put", "a", 1), body=b"{"), BadInput),
        (msgspec.structs.replace(draft("put", "a", 1), body=b""), BadInput),
        (msgspec.structs.replace(draft("put", "a", 1), body=b"[" * 70 + b"]" * 70), UnfitBody),
        (draft("put", "a", "x" * 100), TooLarge),
    ],
)
def test_what_no_state_can_allow_is_refused(asked: Draft, kind: type[BadInput]) -> None:
    with pytest.raises(kind) as refused:
        read_draft(asked, limit=100 if kind is TooLarge else None)
    assert refused.value.hint


def test_a_digest_is_of_everything_that_is_asked_for() -> None:
    asked = draft("put", "a", 1, key="k")
    digests = {
        read_draft(one).digest
        for one in (asked, draft("put", "b", 1, key="k"), draft("put", "a", 2, key="k"), draft("put", "a", 1, key="k", match=(1,)))
    }
    assert len(digests) == 4
    assert read_draft(asked).digest == read_draft(draft("put", "a", 1, key="k")).digest
    assert read_draft(draft("put", "a", 1)).digest == ""
    assert read_draft(asked).size > 0


def test_a_batch_is_of_one_document_or_collection() -> None:
    good = BatchDraft(uri="c~", drafts=(draft("put", "c~/1", 1), draft("post", "c~", {})), key="k")
    assert read_batch(good).digest
    assert read_batch(good).size > 0
    for drafts, text in (
        ((), "no writes"),
        ((draft("put", "d~/1", {}),), "d~"),
        ((draft("put", "c~/1", {}), draft("delete", "c~")), "Write 2"),
        ((draft("put", "c~/1", {}, key="k"),), "key"),
        ((draft("put", "c~/1", {}), draft("patch", "c~", {})), "Write 2"),
    ):
        with pytest.raises(BadInput, match=text):
            read_batch(BatchDraft(uri="c~", drafts=drafts))
    with pytest.raises(BadInput, match="10001"):
        read_batch(BatchDraft(uri="c~", drafts=(draft("delete", "c~/1"),) * 10_001))
