"""The fence of a run: whether a newer one has begun, asked before each batch, in the run and in Spark's tasks."""

from __future__ import annotations

from headwater.core.errors import BadBounds, OffsetGone, UnknownTopic
from headwater.log import Log
from headwater.log.epochs import Epochs
from headwater.pipeline.offsets.control import newer_run, offsets_topic
from headwater.pipeline.offsets.state import RunInfo, from_record
from headwater.pipeline.running.work import SinkWork


class RunFence:
    """Asks whether the run that `work` belongs to is still the newest.

    On the embedded engine a claim is a number in shared memory. On Kafka it lies among the messages, and to find it is to read them all.
    But a run delivers nothing before its first record in the offset log is durable, and the offset log is small: what came since the last
    look is read, which is one request for the log's end where nothing came.
    """

    def __init__(self, log: Log, work: SinkWork) -> None:
        self._log, self._work = log, work
        self._topic = offsets_topic(work.pipeline)
        self._superseded = False
        self._next, epoch = work.mark
        self._epochs = Epochs(epoch)

    def check(self) -> None:
        """Errors: `Fenced` where a newer run has begun, or the pipeline was removed; `Unavailable` where the log cannot be asked."""
        if self._log.engine == "embedded":
            if self._log.epoch(self._work.topic, 0) > self._work.epoch:
                raise newer_run(self._work.pipeline)
            return
        try:
            try:
                self._read()
            except OffsetGone:  # compaction has written the state again, and deleted what was before
                self._next = self._log.bounds(self._topic, 0).start
                self._read()
        except (BadBounds, UnknownTopic):  # the pipeline was removed, and perhaps created again
            self._superseded = True
        if self._superseded:
            raise newer_run(self._work.pipeline)

    def _read(self) -> None:
        while records := self._log.read(self._topic, 0, self._next):
            for record in records:
                self._next = (record.offset or 0) + 1
                if self._epochs.admits(record) and record.key == b"run":
                    change = from_record(record)
                    if change is not None and isinstance(change[1], RunInfo) and change[1].epoch > self._work.epoch:
                        self._superseded = True
