"""Everything that `headwater.store.Store` promises, as tests that any engine can be held to."""

from __future__ import annotations

import msgspec
import pytest

from headwater.core.errors import Closed, Differs, HeadwaterError, NewerFormat
from headwater.store import Migration, Migrations, Store
from headwater.testing.log_ground import together
from headwater.testing.store_ground import OpenStore, StoreGround, migrations, numbers


class StoreContract(StoreGround):
    """Subclass it, and give `dialect` and the fixture `open_store`: a function that opens one more Store on the same place.

    Each test needs a place of its own: a file, or a keyspace.
    """

    # -- rows -------------------------------------------------------------------------------------------------

    def test_rows_are_there_for_whoever_opens_it_next(self, store: Store, another: OpenStore, steps: Migrations) -> None:
        store.migrate(steps)
        assert store.run(self.dialect.put, ("a", 3)) == []
        assert another().run(self.dialect.rows) == [("a", 3)]
        store.close()
        assert another().run(self.dialect.rows) == [("a", 3)]

    def test_a_statement_that_fails_changes_nothing_and_the_store_goes_on(self, store: Store, steps: Migrations) -> None:
        store.migrate(steps)
        with pytest.raises(HeadwaterError):
            store.run(self.dialect.broken)
        store.run(self.dialect.put, ("a", 1))
        assert store.run(self.dialect.rows) == [("a", 1)]

    def test_nothing_can_be_done_after_close(self, store: Store) -> None:
        store.close()
        store.close()
        with pytest.raises(Closed):
            store.run(self.dialect.rows)

    def test_many_threads_write_at_once(self, store: Store, steps: Migrations) -> None:
        store.migrate(steps)

        def write(thread: int) -> None:
            for number in range(10):
                store.run(self.dialect.put, (f"{thread}-{number}", number))

        together(*(lambda thread=thread: write(thread) for thread in range(4)))
        assert len(store.run(self.dialect.rows)) == 40

    # -- migrations -------------------------------------------------------------------------------------------

    def test_steps_are_applied_once_and_in_their_order(self, store: Store, another: OpenStore, steps: Migrations) -> None:
        assert store.applied("library") == []
        assert numbers(store.migrate(steps)) == [1, 2]
        assert store.applied("library") == [1, 2]
        assert store.migrate(steps) == []
        assert another().migrate(steps) == []
        store.run(self.dialect.put, ("a", 3))
        store.run(self.dialect.paint, ("red", "a"))
        assert store.run(self.dialect.colours) == [("a", "red")]

    def test_a_later_headwater_applies_only_what_is_new(self, store: Store, steps: Migrations) -> None:
        store.migrate(Migrations("library", steps.steps[:1]))
        store.run(self.dialect.put, ("a", 3))
        assert numbers(store.migrate(steps)) == [2]
        assert store.run(self.dialect.colours) == [("a", None)]

    def test_tables_of_a_later_headwater_are_refused(self, store: Store, another: OpenStore, steps: Migrations) -> None:
        store.migrate(steps)
        older = Migrations("library", steps.steps[:1])
        with pytest.raises(NewerFormat, match="form 2"):
            another().migrate(older)
        assert store.applied("library") == [1, 2]

    def test_a_step_with_another_text_is_refused_and_a_comment_is_none(self, store: Store, steps: Migrations) -> None:
        store.migrate(Migrations("library", steps.steps[:1]))
        first, second = steps.steps
        other = Migration(1, first.name, first.text.replace("shelf", "shelves"))
        with pytest.raises(Differs, match="0001_step_1"):
            store.migrate(Migrations("library", (other, second)))
        assert store.applied("library") == [1]
        assert numbers(store.migrate(Migrations("library", (Migration(1, first.name, f"-- why\n{first.text}"), second)))) == [2]

    def test_parts_do_not_meet(self, store: Store, steps: Migrations) -> None:
        store.migrate(steps)
        others = migrations(self.dialect.make.replace("shelf", "other_shelf"), part="other")
        assert numbers(store.migrate(others)) == [1]
        assert (store.applied("library"), store.applied("other")) == ([1, 2], [1])

    def test_a_step_that_fails_is_not_noted_and_is_finished_later(self, store: Store, another: OpenStore, steps: Migrations) -> None:
        first, second = steps.steps
        failing = msgspec.structs.replace(second, text=f"{second.text}{self.dialect.broken};\n")
        with pytest.raises(HeadwaterError):
            store.migrate(Migrations("library", (first, failing)))
        assert store.applied("library") == [1]
        assert numbers(another().migrate(steps)) == [2]

    def test_several_that_open_it_at_once_apply_each_step_once(self, another: OpenStore, steps: Migrations) -> None:
        stores = [another() for _ in range(4)]
        applied: list[int] = []
        together(*(lambda store=store: applied.extend(numbers(store.migrate(steps))) for store in stores))
        assert sorted(applied) == [1, 2]
        assert stores[0].applied("library") == [1, 2]
