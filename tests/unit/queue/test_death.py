from headwater.queue.death import Death


def test_nobody_was_told_of_a_death_unless_it_is_said() -> None:
    death = Death(3, 1, 1_000, "why", "w")
    assert not death.told
    assert Death(*death._replace(told=True)).told, "as a record holds it"
