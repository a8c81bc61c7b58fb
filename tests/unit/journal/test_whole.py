from __future__ import annotations

from tests.unit.journal.ground import Ground, appended, purged
from tests.unit.journal.test_grown import COUNTS, ID, NEW, OLD, Grown

from headwater.journal.grown import journals_of
from headwater.journal.whole import WholeJournals


def test_a_journal_is_looked_up_in_all_of_its_places(ground: Ground) -> None:
    grown = Grown(ground)
    older, newer = (WholeJournals(grown.partition(place), lambda id: journals_of(id, COUNTS, grown.partition)) for place in (OLD, NEW))
    alone = WholeJournals(grown.partition(NEW))
    assert (older.head(ID), older.event(ID, 1)) == ((None, 0), None)
    ground.append(appended(ID, 1, 3), partition=OLD)
    ground.append(appended(ID, 4), appended("other", 1), partition=NEW)
    grown.copy(NEW)
    (head, end), (same, at) = newer.head(ID), older.head(ID)
    assert head is not None
    assert (same, head.last, end, at) == (head, 4, 2, 1)
    for journals in (older, newer):
        event = journals.event(ID, 3)
        assert event is not None
        assert (event.seq_nr, event.partition) == (3, OLD)
        assert journals.event(ID, 5) is None
    first = alone.event(ID, 1)
    assert first is not None
    assert first.seq_nr == 4
    ground.append(purged(ID), partition=NEW)
    assert (newer.head(ID), older.event(ID, 1)) == ((None, 3), None)
