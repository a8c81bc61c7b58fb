"""Everything that `headwater.log.Log` promises, as tests that any engine can be held to."""

from __future__ import annotations

from headwater.testing.log_appending import Appending
from headwater.testing.log_claiming import Claiming
from headwater.testing.log_fencing import Fencing
from headwater.testing.log_guarding import Guarding
from headwater.testing.log_keeping import Keeping
from headwater.testing.log_keys import AppendingByKey
from headwater.testing.log_lifetimes import Lifetimes
from headwater.testing.log_owning import Owning
from headwater.testing.log_reading import ReadingTests
from headwater.testing.log_scattered import ScatteredReading
from headwater.testing.log_topics import TopicTests
from headwater.testing.log_types import WrongTypes
from headwater.testing.log_waiting import Waiting


class LogContract(
    TopicTests,
    WrongTypes,
    Appending,
    AppendingByKey,
    ReadingTests,
    ScatteredReading,
    Waiting,
    Keeping,
    Lifetimes,
    Claiming,
    Fencing,
    Owning,
    Guarding,
):
    """Subclass it in a test module, and give the fixture `open_log`: a function that opens one more Log on the same storage.

    Each test gets storage of its own, or names of its own in storage that is shared (names are random, so both will do).
    `compacts = False` for an engine whose `compact` is `Unsupported`, `guards = False` for one where only a Writer's append takes a guard,
    `keeps_files = False` for one that knows no periods of the calendar and no disposal of segments.
    """
