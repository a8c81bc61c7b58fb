"""Files whose next sync can be held up."""

from __future__ import annotations

import threading

from headwater.core.files import Files


class SlowSync(Files):
    """Once armed, the next sync lasts until it is let go on."""

    def __init__(self) -> None:
        self.armed = False
        self.syncing, self.go_on = threading.Event(), threading.Event()

    def datasync(self, fd: int) -> None:
        if self.armed:
            self.armed = False
            self.syncing.set()
            assert self.go_on.wait(120)
        super().datasync(fd)
