"""Namespaces of regions that belong to other parts: such a part alone changes its regions, and everybody may look at them.

A part reserves them in its `PartDefinition.regions`. It opens and changes its regions through a `RegionManager`; the operations on regions,
which users call, are refused. `clean` and `recover` stay: they change no table, and the errors of regions name them.
"""

from __future__ import annotations

from headwater.core.errors import OwnedTopic
from headwater.wal.region_topics import RegionTopics, region_owner
from headwater.wire.part import load

_CARE = ("clean", "recover")


def check_change(topics: RegionTopics, operation: str) -> None:
    """Errors: `OwnedTopic` where a user is about to change a region of another part; the hint names that part's command."""
    owner = region_owner(topics.namespace)
    if owner is not None and operation not in _CARE:
        raise OwnedTopic(
            f"Region {topics} belongs to the part {owner.name}, which alone changes it.",
            hint=str(load(owner.instead)(topics.data, operation)),
        )
