from __future__ import annotations

from collections.abc import Sequence

from headwater.adaptors.queue.leases import LeaseExtension
from headwater.core.errors import Unreachable


class Extended:
    def __init__(self) -> None:
        self.calls: list[tuple[list[str], int]] = []

    def extend(self, tokens: Sequence[str], lease: int) -> None:
        self.calls.append((list(tokens), lease))


def test_what_is_claimed_is_extended_until_it_is_done() -> None:
    queue = Extended()
    with LeaseExtension(queue, 3_600_000) as leases:
        leases.extend()
        leases.begin(["a", "b", "c"])
        leases.extend()
        leases.done(["a"])
        leases.extend()
        leases.end()
        leases.extend()
    assert queue.calls == [(["a", "b", "c"], 3_600_000), (["b", "c"], 3_600_000)]


def test_the_thread_goes_on_after_an_extension_that_failed() -> None:
    class Failing(Extended):
        def extend(self, tokens: Sequence[str], lease: int) -> None:
            super().extend(tokens, lease)
            if len(self.calls) == 1:
                raise Unreachable("away", hint="")
            leases.end()

    queue = Failing()
    with LeaseExtension(queue, 3) as leases:
        leases.begin(["a"])
        while len(queue.calls) < 2:
            pass
    assert queue.calls[1] == (["a"], 3)
