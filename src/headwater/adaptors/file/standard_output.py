"""Standard output as a target of parts."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from headwater.adaptors.file.adaptor import File
from headwater.adaptors.file.target import Target, gone
from headwater.pipeline.claim import SinkClaim
from headwater.pipeline.sink_adaptor import Part


class StandardOutput(Target):
    """Standard output. The run itself writes to it, at least once."""

    def __init__(self, adaptor: File, pipeline: str, sink: str) -> None:
        super().__init__(adaptor, pipeline, sink, work=Path(tempfile.gettempdir()) / f"headwater-{os.getuid()}-{pipeline}-{sink}")

    def occupied(self) -> bool:
        return False

    def clear(self) -> None:
        """Nothing to do: what was printed stays."""

    def forget(self, position: int, epoch: int) -> None:
        """Nothing to do: no offsets are kept, and messages may be printed again."""

    def owner(self) -> None:
        """Returns None: what was printed belongs to nobody."""

    def claim(self, mine: SinkClaim, former: SinkClaim | None) -> bool:
        return False

    def held(self) -> None:
        """Returns None, as `begin`."""

    def leave(self, former: str) -> None:
        """Nothing to do: what was printed stays."""

    def ranges(self) -> list[tuple[int, int]]:
        return []

    def begin(self, epoch: int) -> None:
        """Returns None: only the offset log knows what was printed."""
        super().begin(epoch)
        (self.work / "headed").unlink(missing_ok=True)

    def recovered(self) -> list[tuple[int, int]]:
        return []

    def put(self, part: Part, receipt: dict[str, Any]) -> None:
        headed = self.work / "headed"
        for temporary in map(Path, receipt["files"]):
            if not temporary.exists():
                raise gone(temporary)
            with temporary.open("rb") as source:
                source.seek(receipt.get("head", 0) if headed.exists() else 0)
                shutil.copyfileobj(source, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            temporary.unlink()
            headed.touch()
