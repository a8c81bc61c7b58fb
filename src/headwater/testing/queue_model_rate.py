"""The model of a queue that gives out so many rows within a period."""

from headwater.queue.effective_settings import EffectiveSettings
from headwater.testing.queue_model import ModelRow
from headwater.testing.queue_model_after import WaitingModel


class RatedModel(WaitingModel):
    """As `WaitingModel`. Whoever claims a row notes the time in `starts`."""

    def __init__(self, settings: EffectiveSettings) -> None:
        super().__init__(settings)
        self.starts: list[int] = []

    def claimable(self, now: int, group: str) -> list[ModelRow]:
        started = sum(start > now - self.settings.rate_period for start in self.starts)
        return [] if 0 < self.settings.rate <= started else super().claimable(now, group)
