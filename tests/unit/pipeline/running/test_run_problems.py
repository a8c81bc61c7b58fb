"""Which error ends a run, and what it says of the others."""

from __future__ import annotations

from headwater.core.errors import Differs, Fenced, Unreachable
from headwater.pipeline.running.run_problems import RunProblems


def test_the_first_error_names_the_others_with_their_hints() -> None:
    problems = RunProblems()
    assert problems.error() is None
    problems.add("a", Differs("a is gone.", hint="Put a back."))
    problems.add("b", Unreachable("b does not answer.", hint="Start b."))
    problems.add("c", Differs("a is gone.", hint="Said already."))
    problems.add("d", Fenced("A newer run has begun.", hint=""))
    error = problems.error()
    assert isinstance(error, Differs)
    assert (error.message, error.hint) == ("a is gone.", "Put a back.\n  b does not answer.\n  Start b.")


def test_a_newer_run_is_the_reason_for_everything_behind_it() -> None:
    problems = RunProblems()
    problems.add("a", Fenced("A newer run has begun.", hint="Leave it."))
    problems.add("b", Differs("b is gone."))
    error = problems.error()
    assert isinstance(error, Fenced)
    assert error.hint == "Leave it."


def test_a_sink_that_goes_on_has_no_error_any_more() -> None:
    problems = RunProblems()
    problems.add("a", Differs("a is gone."))
    problems.add("b", Differs("b is gone."))
    problems.forget("a")
    error = problems.error()
    assert error is not None
    assert error.message == "b is gone."
    problems.forget("b")
    assert problems.error() is None
