from __future__ import annotations

from tests.unit.journal.ground import Ground, appended, purged

from headwater.journal.tally import CopyTally


def test_a_fork_begins_at_a_number_that_is_there_and_a_gap_leaves_numbers_out() -> None:
    tally = CopyTally()
    for first, last in ((3, 2), (2, 2), (1, 2), (4, 2)):
        tally.count(first, last)
    assert (tally.forks, tally.gaps) == (2, 1)
    tally.add(CopyTally(7, 1, 1))
    assert tally == CopyTally(7, 3, 2)


def test_forks_and_gaps_are_counted_alike_however_the_log_is_split(ground: Ground) -> None:
    ground.topic()
    history = [
        appended("a", 5, 6),  # a first Append is no gap
        appended("a", 7),
        appended("a", 7),  # a fork
        appended("a", 10),  # a gap
        appended("a", 11),
        appended("a", 12),
        purged("a"),
        appended("a", 4),
        appended("a", 5),
    ]
    found = []
    for at_once in (len(history), 1, 3):
        ground.outcomes.clear()
        name = f"journal-{at_once}"
        ground.topic(name)
        loop = ground.loop()
        for at in range(0, len(history), at_once):
            ground.append(*history[at : at + at_once], topic=name)
            loop.catch_up()
        tally = CopyTally()
        for outcome in ground.outcomes:
            for one in outcome.partitions:
                tally.add(one.tally)
        found.append(tally)
        loop.close()
    assert found == [CopyTally(9, 1, 1)] * 3
