"""Random writes, restarts and failing stores beside a model: outcomes, state, history and feed are those of the model."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.documents.ground import FlakyStores, documents_in

from headwater.core.errors import HeadwaterError
from headwater.documents.change import decode_record
from headwater.documents.open_documents import TOPIC, OpenDocuments
from headwater.documents.patch import merge_patch
from headwater.documents.path import ResourcePath, parse_path
from headwater.documents.write import ANY_STATE, BatchDraft, Draft, Precondition
from headwater.testing.clock import ManualClock
from headwater.testing.document_model import DocumentModel, ModelRefusal, random_body

PATHS = [parse_path(text) for text in ("a", "b/c", "c~", "c~/1", "c~/2", "c~/3", "d/e~", "d/e~/1", "d/e~/x.y")]


def random_draft(random: Random, model: DocumentModel, path: ResourcePath | None = None) -> Draft:
    path = path or random.choice(PATHS)
    verb: Any = random.choices(["put", "patch", "post", "delete"], [5, 4, 2, 2])[0]
    kind: Any = random.choice(["merge", "merge", "operations", "increment"]) if verb == "patch" else "merge"
    body = random_body(random)
    if kind == "increment":
        body = {name: random.randint(-3, 3) for name in random.sample("abc", 2)}
    elif kind == "operations":
        name = random.choice("abc")
        body = [{"op": random.choice(["add", "test", "remove", "replace"]), "path": f"/{name}", "value": random.choice([1, "x", {"f": 1}])}]
    condition = ANY_STATE
    if random.random() < 0.3:
        known = model.revisions.get(path.uri, 0)
        tags = random.choice([(), (known,), (known - 1, known), (known + 1,)])
        condition = Precondition(tags, None) if random.random() < 0.5 else Precondition(None, tags)
    return Draft(path=path, verb=verb, body=b"" if verb == "delete" else msgspec.json.encode(body), patch=kind, condition=condition)


async def one_step(random: Random, documents: OpenDocuments, model: DocumentModel) -> None:
    first = random_draft(random, model)
    if random.random() < 0.15:
        await one_batch(random, documents, model, first.path.uri)
        return
    refused = ""
    try:
        written = await documents.write(first)
    except HeadwaterError as error:
        refused = type(error).__name__
    if refused:
        with pytest.raises(ModelRefusal, match=refused):
            model.write(first, "posted")
        return
    assert (written.revision, written.created) == model.write(first, written.path.item)


async def one_batch(random: Random, documents: OpenDocuments, model: DocumentModel, uri: str) -> None:
    choices = [path for path in PATHS if path.uri == uri]
    drafts = tuple(random_draft(random, model, random.choice(choices)) for _ in range(random.randint(1, 4)))
    if any(draft.verb == "delete" and draft.path.is_collection for draft in drafts[1:]):
        return
    trial = DocumentModel()
    trial.revisions, trial.living, trial.rows = dict(model.revisions), set(model.living), dict(model.rows)
    try:
        written = await documents.write_batch(BatchDraft(uri=uri, drafts=drafts))
    except HeadwaterError:
        with pytest.raises(ModelRefusal):  # perhaps with another name: what no state can allow is told first
            for draft in drafts:
                trial.write(draft, "posted")
        return
    outcomes = [trial.write(draft, one.path.item) for draft, one in zip(drafts, written, strict=True)]
    assert [(one.revision, one.created) for one in written] == outcomes
    assert len({one.offset for one in written}) == 1
    model.revisions, model.living, model.rows = trial.revisions, trial.living, trial.rows


async def compared(documents: OpenDocuments, model: DocumentModel) -> None:
    """State, history and feed."""
    for path in {*PATHS, *model.rows}:
        head, row = await documents.read(path)
        assert (0 if head is None else head.revision) == model.revisions.get(path.uri, 0)
        if path.is_collection:
            with documents.view(path.uri) as view:
                items = {one.item: (msgspec.json.decode(one.body), one.revision) for one in view.rows(path.uri, limit=1000)}
            assert items == {one.item: kept for one, kept in model.rows.items() if one.uri == path.uri}
            assert (head is not None and not head.deleted) == (path.uri in model.living)
        else:
            assert (None if row is None else (msgspec.json.decode(row.body), row.revision)) == model.rows.get(path)
    folded = fed(documents, model)
    assert folded == {path: body for path, (body, _) in model.rows.items()}


def fed(documents: OpenDocuments, model: DocumentModel) -> dict[ResourcePath, Any]:
    """The state that a follower makes of the events; revisions have no gap."""
    state: dict[ResourcePath, Any] = {}
    seen: dict[str, int] = {}
    for number in range(documents.partitions):
        end = documents.end(number)
        for record in documents.log.read(TOPIC, number, 0, limit=100_000) if end else ():
            change_record = decode_record(record.value, "")
            for change in change_record.changes:
                uri, path = change_record.uri, ResourcePath(change_record.uri, change.item)
                assert change.revision == seen.get(uri, 0) + 1
                seen[uri] = change.revision
                if change.method == "delete":
                    for gone in [one for one in state if one == path or (path.is_collection and one.uri == uri)]:
                        del state[gone]
                elif change.method == "put":
                    state[path] = msgspec.json.decode(change.event)
                else:
                    state[path] = merge_patch(state[path], msgspec.json.decode(change.event))
    assert seen == model.revisions
    return state


async def lived(folder: Path, seed: int, steps: int) -> None:
    random, model, clock = Random(seed), DocumentModel(), ManualClock()
    left = steps
    while left > 0:
        async with AsyncExitStack() as stack:
            stores = FlakyStores(folder / "documents")
            stack.callback(stores.close)
            documents = await stack.enter_async_context(documents_in(folder, clock=clock, stores=stores))
            for _ in range(random.randint(1, 15)):
                stores.failing = random.random() < 0.2
                clock.jump(random.choice([0.0, 0.5, -1.0]))
                await one_step(random, documents, model)
                left -= 1
            stores.failing = False
            await compared(documents, model)


@given(st.integers(0, 1 << 32))
def test_documents_are_those_of_the_model(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    asyncio.run(lived(tmp_path_factory.mktemp("documents"), seed, 40))
