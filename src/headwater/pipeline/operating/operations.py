"""All operations on one pipeline. The command line, the server and the Python door call them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headwater.core.clock import Clock
from headwater.core.errors import BadInput, NotFound
from headwater.core.settings import Settings, SparkSettings
from headwater.log import Log
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.operating import answers
from headwater.pipeline.operating.changes import PipelineChanges

if TYPE_CHECKING:
    from headwater.pipeline.operating.manual_delivery import ManualDelivery

_NO_SPARK = Settings(spark=SparkSettings(start="never"))  # manual delivery needs no Spark, and a server must not start one


class PipelineOperations(PipelineChanges):
    """One pipeline: each operation of the table is a method of the same name, called with the fields of its request.

    Errors: those of `PipelineChanges` and `ManualDelivery`.
    """

    def __init__(
        self,
        log: Log,
        pipeline: str,
        *,
        who: str = "",
        clock: Clock | None = None,
        control: Control | None = None,
        file: Path | None = None,
        settings: Settings | None = None,
    ) -> None:
        """`file`: its definition, where that is not the file of its last run. `settings`: given where Spark may be started."""
        super().__init__(log, pipeline, clock=clock, control=control, who=who)
        self._file, self._settings = file, settings or _NO_SPARK

    # -- sending, which runs the pipeline's file ------------------------------------------------------------

    def definition(self) -> Pipeline:
        """Run the file that defines the pipeline. Its relative paths mean what they meant to the run only in the run's folder."""
        from headwater.pipeline.loading import load_pipeline

        run = self.state().run
        where = str(self._file) if self._file is not None else run.file if run is not None else ""
        if not where:
            hint = "Run it from a file once, or name its file with --file on the command line."
            raise BadInput(f"Where {self.pipeline} is defined is not known.", hint=hint)
        pipeline = load_pipeline(where)
        if pipeline.name != self.pipeline:
            hint = "Run it once more, or name the right file with --file."
            raise BadInput(f"{where} defines {pipeline.name}, not {self.pipeline}.", hint=hint)
        return pipeline

    def folder(self) -> Path | None:
        """The folder of the last run, in which its file must run; None where it is not known. Errors: `NotFound`."""
        run = self.state().run
        if run is None or not run.folder:
            return None
        if not Path(run.folder).is_dir():
            raise NotFound(f"{run.folder}, where {self.pipeline} was run, is not there.", hint="Run it once more, from where it is now.")
        return Path(run.folder)

    def step(self, sink: str, count: int = 1, *, why: str = "", dry_run: bool = False) -> answers.Stepped:
        """Deliver the next messages, each acknowledged before the one after."""
        delivery = self._delivery(sink)
        taken: list[int] = []
        if dry_run:
            delivery.check_alone()
        else:
            delivery.deliver_next(count, why=why, on_taken=taken.append)
        position, following = self.sink(sink).position, delivery.following()
        return answers.Stepped(sink=sink, taken=len(taken), offsets=taken, position=position, next=following, dry_run=dry_run)

    def replay(self, sink: str, first: int, last: int, *, why: str = "", dry_run: bool = False) -> answers.Replayed:
        delivery = self._delivery(sink)
        outcome = delivery.send_again(first, last, why=why, dry_run=dry_run)
        written = outcome.written if outcome is not None else 0
        newer = delivery.covered(first, last)
        return answers.Replayed(sink=sink, first=first, last=last, written=written, newer=newer, dry_run=dry_run)

    def retry(self, offset: int, *, sink: str | None = None, why: str = "", force: bool = False, dry_run: bool = False) -> answers.Resolved:
        """Send a message that was put aside; with `force` also where the sink has a newer one of the same document."""
        letter = self.dead_letter(offset, sink)
        delivery = self._delivery(letter.sink)
        if not force:
            delivery.refuse_older(letter)
        if not dry_run:
            delivery.send_dead(letter, why=why)
        return answers.Resolved(sink=letter.sink, offset=offset, done="taken", dry_run=dry_run)

    def verify(self, sink: str) -> answers.Verified:
        from headwater.pipeline.operating.verification import compare

        return compare(self, self.definition(), sink)

    def _delivery(self, sink: str) -> ManualDelivery:
        from headwater.pipeline.operating.manual_delivery import ManualDelivery

        return ManualDelivery(self, self.definition(), sink, self._settings, clock=self.clock)
