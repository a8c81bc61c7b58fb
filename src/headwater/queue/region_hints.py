"""The namespace of regions that queues keep their rows in, and what to do instead of changing such a region by hand."""

from __future__ import annotations

NAMESPACE = "queue"
CATALOGUE_REGION = 0
CATALOGUE_TABLE = 0

_DELETING = ("delete", "delete_topic", "drop_table")
_FREEING = ("compact", "delete_before", "move", "mark_delete_up_to")


def instead(topic: str, operation: str) -> str:
    """The hint for a user who wants to change a region of queues, or a topic of one, with an operation of regions or of the log."""
    number = topic.replace("_meta_", "_data_").rpartition("_data_")[2]
    region = f"{NAMESPACE}/{number}"
    advice = "`headwater queue list` says which queues lie in it."
    if operation in _DELETING:
        return f"Delete the queue: `headwater queue delete QUEUE`; {advice}"
    if operation in _FREEING:
        return f"Remove what no row needs: `headwater wal clean {region}`; {advice}"
    if operation == "create":
        return "Create a queue: `headwater queue create QUEUE`."
    return f"Put rows into a queue: `headwater queue put QUEUE KEY`; {advice}"
