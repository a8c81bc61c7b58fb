"""The model of a queue that remembers for a while which keys were done."""

from headwater.queue.effective_settings import EffectiveSettings
from headwater.testing.queue_model import ModelRow, QueueModel


class RememberingModel(QueueModel):
    """As `QueueModel`. A put says `within` which time it is ignored; a row has `unique_for`, the time for which its key is remembered."""

    def __init__(self, settings: EffectiveSettings) -> None:
        super().__init__(settings)
        self.done: dict[bytes, tuple[int, int]] = {}  # when a key was done, and until when that counts

    def put(self, new: ModelRow, now: int, *, dated: bool = True, own: bool = False, within: int = 0) -> str:
        done, until = self.done.get(new.key, (0, 0))
        if not self.rows.get(new.key) and now < min(until, done + within):
            return "ignored"
        return super().put(new, now, dated=dated, own=own)

    def end(self, row: ModelRow, how: str, now: int, delay: int | None = None) -> None:
        unique = max(row.unique_for, self.settings.unique_for)
        super().end(row, how, now, delay)
        if how == "done" and unique:
            self.done[row.key] = now, max(now + unique, self.done.get(row.key, (0, 0))[1])

    def _merge(self, old: ModelRow, new: ModelRow) -> None:
        super()._merge(old, new)
        old.unique_for = max(old.unique_for, new.unique_for)
