from __future__ import annotations

from headwater.journal.operations import JOURNAL
from headwater.journal.snapshot_operations import SNAPSHOTS, SNAPSHOTS_SAVE
from headwater.journal.snapshot_requests import SaveSnapshot, SnapshotBody, read_snapshot_body
from headwater.wire.operation import Role


def test_they_are_operations_of_journals_under_one_address() -> None:
    assert set(SNAPSHOTS) <= set(JOURNAL.operations)
    assert {(one.method, one.path) for one in SNAPSHOTS} == {
        (method, "/journals/{topic}/{id}/snapshots") for method in ("GET", "PUT", "DELETE")
    }
    assert [one.role for one in SNAPSHOTS] == [Role.READER, Role.WRITER, Role.WRITER]


def test_a_save_sends_what_a_server_reads() -> None:
    body = read_snapshot_body(b'{"payload": {"eur": 5}, "seq_nr": 3}')
    assert SNAPSHOTS_SAVE.sends is not None
    media, sent = SNAPSHOTS_SAVE.sends(SaveSnapshot(topic="bank", id="a", body=body))
    assert (media, read_snapshot_body(sent)) == ("application/json", body)
    nothing = SNAPSHOTS_SAVE.sends(SaveSnapshot(topic="bank", id="a"))
    assert nothing == ("application/json", b"")
    assert isinstance(body, SnapshotBody)
