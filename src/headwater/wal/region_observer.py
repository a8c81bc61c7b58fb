"""What an open region tells whoever keeps it."""

from __future__ import annotations


class RegionObserver:
    """Is told of marks, drops and snapshots. This one does nothing: override what is of interest.

    The calls must be quick and raise nothing.
    """

    def marked(self) -> None:
        """A mark is durable. Called on the event loop."""

    def dropped(self) -> None:
        """The drop of a table is durable. Called on the event loop."""

    def stored(self, size: int, seconds: float) -> None:
        """A snapshot of `size` bytes is stored, which took `seconds`. Called in a thread."""
