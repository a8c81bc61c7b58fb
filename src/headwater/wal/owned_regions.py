"""Notes which regions a server owns, in its data directory: started again, it opens those that nobody else has taken meanwhile.

A note is an empty file `<folder>/<namespace>/<region>`, so that the workers of a server share them. It is a hint: without one, a region is
opened by its first call; one too many is a region that is looked at, and left to its owner.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

from headwater.core.errors import BadInput, HeadwaterError
from headwater.core.files import Files, explaining, make_dirs
from headwater.wal.region_topics import RegionTopics, region_named

_logger = logging.getLogger("headwater.wal")


class OwnedRegions:
    """The notes. Blocking. What cannot be noted is logged, and fails no call."""

    def __init__(self, folder: Path | None = None, *, files: Files | None = None) -> None:
        """`folder`: None notes nothing."""
        self._folder, self._files = folder, files or Files()

    def add(self, topics: RegionTopics) -> None:
        """Note a region. One that is noted already stays so."""
        if self._folder is None:
            return
        path = self._path(self._folder, topics)
        try:
            with explaining(path):
                if not path.exists():
                    make_dirs(self._files, path.parent)
                    self._files.close(self._files.open(path, os.O_WRONLY | os.O_CREAT))
        except HeadwaterError as error:
            _logger.warning("Region %s was not noted, and a server that starts opens it with its first call: %s", topics, error)

    def remove(self, topics: RegionTopics) -> None:
        """Forget a region, whether or not it is noted."""
        if self._folder is None:
            return
        try:
            with explaining(self._folder), suppress(FileNotFoundError):
                self._files.unlink(self._path(self._folder, topics))
        except HeadwaterError as error:
            _logger.warning("The note of region %s was not removed: %s", topics, error)

    def all(self) -> list[RegionTopics]:
        """Every region that is noted, sorted."""
        if self._folder is None:
            return []
        noted = list[RegionTopics]()
        for path in self._folder.glob("*/*"):
            with suppress(BadInput):  # a file of somebody else
                noted.append(region_named(f"{path.parent.name}/{path.name}"))
        return sorted(noted, key=lambda topics: (topics.namespace, topics.region))

    @staticmethod
    def _path(folder: Path, topics: RegionTopics) -> Path:
        return folder / topics.namespace / str(topics.region)
