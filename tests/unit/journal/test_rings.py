from __future__ import annotations

from tests.unit.journal.ground import Ground
from tests.unit.journal.test_base import SNAPSHOTS, BaseGround

from headwater.journal.head import record_id
from headwater.journal.rings import living_rings, pages_of_ids


def test_rings_come_with_payloads_and_without_those_of_ended_lives(ground: Ground) -> None:
    based = BaseGround(ground)  # the snapshots' look-ups find five records
    ground.log.create_topic(SNAPSHOTS, part="journal")
    based.save(1)
    based.save(2)
    based.replicate()
    copy = ground.store.partition(based.topic.name, 0, based.topic.generation)
    assert copy is not None
    with copy.view() as view:
        head = view.head("a")
    assert head is not None
    assert head.record_id == record_id(based.topic.generation, 0, 0)
    with based.rings().view() as rings:
        [ids] = pages_of_ids(rings)
        assert ids == ["a"]
        [(id, slots)] = living_rings(rings, ids, 4, {"a": head}.get)
        assert (id, {slot: (one.seq_nr, one.payload is not None) for slot, one in slots.items()}) == ("a", {0: (1, True), 1: (2, True)})
        assert list(living_rings(rings, ids, 4, {}.get)) == []  # purged by then
        assert [id for id, _ in living_rings(rings, ids, 3, {}.get)] == ["a"]  # not known yet: a Purge that comes takes them
