"""The pipeline as the owner of its topics: the name by which it changes them, and what others do instead."""

from __future__ import annotations

PART = "pipeline"
PREFIX = "pipeline-"


def pipeline_of(topic: str) -> str:
    """The pipeline that a topic belongs to, its positions' topic included."""
    return topic.removeprefix(PREFIX).removesuffix("-offsets")


def instead(topic: str, operation: str) -> str:
    """What to do instead of changing a pipeline's topic with an operation of the log."""
    name = pipeline_of(topic)
    match operation:
        case "create_topic":
            return f"Choose a name that does not begin with {PREFIX}; `headwater pipeline run FILE` makes the topics of a pipeline."
        case "delete_topic":
            return f"Delete the pipeline with its topics: `headwater pipeline remove {name}`."
        case "compact" | "delete_before":
            return f"Free what every sink has taken: `headwater pipeline compact {name}`."
        case _:
            return (
                "Its source fills it: `headwater pipeline run FILE`. "
                f"Correct a message with `headwater pipeline edit {name} OFFSET`, or append to a topic of your own."
            )
