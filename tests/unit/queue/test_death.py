import msgspec

from headwater.queue.death import Death, death_size


def test_nobody_was_told_of_a_death_unless_it_is_said() -> None:
    death = Death(3, 1, 1_000, "why", "w")
    assert not death.told
    assert Death(*death._replace(told=True)).told, "as a record holds it"


def test_its_size_is_about_that_of_a_record() -> None:
    death = Death(1, 2, 1_700_000_000_000, "ä" * 100, "worker")
    assert 0 <= death_size(death) - len(msgspec.msgpack.encode(death[1:])) < 40
