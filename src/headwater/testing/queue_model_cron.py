"""A row of the model that comes at each full minute, as by the cron expression `* * * * *`."""

from headwater.testing.queue_model import ModelRow

MINUTE = 60_000


class TimedRow(ModelRow):
    """As `ModelRow`. `every` of `MINUTE` stands for that expression."""

    def next_run(self, now: int) -> int:
        return (max(self.run, now) // MINUTE + 1) * MINUTE if self.every == MINUTE else super().next_run(now)
