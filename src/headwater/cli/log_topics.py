"""`headwater log topics | create | stats | delete-before | delete-topic`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from headwater.cli.log_opening import only_partition, opened
from headwater.cli.options import ConfigFile, DataDir, DryRun, Json, PartitionNumber, TopicName, Yes
from headwater.cli.output import Column, agreed, count, print_json, print_table
from headwater.core.errors import BadBounds
from headwater.core.units import Duration, Size, rounded_size
from headwater.log import Log
from headwater.log.json_form import show_topic
from headwater.log.owners import check_owner
from headwater.log.record import Topic, TopicSettings


def topics(data: DataDir = None, config: ConfigFile = None, json: Json = False) -> None:
    """List every topic with its partitions and settings."""
    with opened(data, config) as (log, _):
        found = log.topics()
    if json:
        print_json([show_topic(topic) for topic in found])
    elif found:
        _print_topics(found)
    else:
        typer.echo("There are no topics. `headwater log create TOPIC` makes one.", err=True)


def create(
    topic: TopicName,
    partitions: Annotated[int, typer.Option("--partitions", metavar="N", help="How many; this never changes afterwards.")] = 1,
    segment: Annotated[
        str | None, typer.Option("--segment", metavar="SIZE", help="Close segments at this size (setting `log.segment`).")
    ] = None,
    period: Annotated[str | None, typer.Option("--period", metavar="DURATION", help="Close segments at this age, too.")] = None,
    max_record: Annotated[
        str | None, typer.Option("--max-record", metavar="SIZE", help="Refuse records above this size (setting `log.max_record`).")
    ] = None,
    data: DataDir = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Make a topic. One that is there with the same partitions and settings is left as it is."""
    with opened(data, config, read_only=False, creates=True) as (log, settings):
        made = log.create_topic(
            topic,
            partitions=partitions,
            settings=TopicSettings(
                segment=int(Size.parse(segment) if segment else settings.log.segment),
                period=int(Duration.parse(period)) if period else 0,
                max_record=int(Size.parse(max_record) if max_record else settings.log.max_record),
            ),
        )
    if json:
        print_json(show_topic(made))
    else:
        _print_topics([made])


def stats(
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="One topic instead of all.", show_default=False)] = None,
    data: DataDir = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Show what each partition consists of: offsets, segments, bytes, torn tails that were cut, damage."""
    with opened(data, config) as (log, _):
        chosen = log.topics() if topic is None else [log.topic(topic)]
        found = [_stats(log, one, number) for one in chosen for number in range(one.partitions)]
    if json:
        print_json(found)
        return
    columns = [
        Column("topic"),
        *(Column(name, True) for name in ("partition", "start", "end", "segments", "bytes", "cuts")),
        Column("damage"),
    ]
    print_table(columns, [_stats_row(one) for one in found])


def delete_before(
    topic: TopicName,
    offset: Annotated[int, typer.Argument(metavar="OFFSET", min=0, help="The first offset to keep.", show_default=False)],
    partition: PartitionNumber = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    data: DataDir = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Let go of every record below an offset, for good."""
    with opened(data, config, read_only=dry_run) as (log, _):
        described = log.topic(topic)
        check_owner(topic, described.settings.owner, "", "delete_before")  # before anybody is asked to agree
        number = only_partition(described, partition, "an offset belongs to one of them")
        bounds = log.bounds(topic, number)
        if offset > bounds.end:
            raise BadBounds(f"{topic} {number} ends before offset {bounds.end}; {offset} is beyond.", hint=f"Give {bounds.end} or less.")
        start = max(offset, bounds.start)
        if start > bounds.start and not dry_run:
            if not agreed(f"Delete offsets {bounds.start} to {offset - 1} of {topic} {number} for good?", yes=yes):
                return
            start = log.delete_before(topic, number, offset)
    said: dict[str, Any] = {
        "topic": topic,
        "partition": number,
        "start_before": bounds.start,
        "start": start,
        "end": bounds.end,
        "dry_run": dry_run,
    }
    if json:
        print_json(said)
    else:
        would = "would begin" if dry_run else "begins"
        typer.echo(f"{topic} {number} {would} at offset {start}; before it was {bounds.start}.")


def delete_topic(
    topic: TopicName, yes: Yes = False, dry_run: DryRun = False, data: DataDir = None, config: ConfigFile = None, json: Json = False
) -> None:
    """Remove a topic and all of its records, for good."""
    with opened(data, config, read_only=dry_run) as (log, _):
        described = log.topic(topic)
        check_owner(topic, described.settings.owner, "", "delete_topic")
        spans = [_span(log, topic, number) for number in range(described.partitions)]
        offsets, damaged = sum(span or 0 for span in spans), [number for number, span in enumerate(spans) if span is None]
        more = f" and what is left in the damaged partitions {', '.join(map(str, damaged))}" if damaged else ""
        if not dry_run:
            what = f"topic {topic} with {count(offsets)} offsets in {described.partitions} partitions{more}"
            if not agreed(f"Delete {what} for good?", yes=yes):
                return
            log.delete_topic(topic)
    if json:
        print_json({"topic": topic, "partitions": described.partitions, "offsets": offsets, "damaged": damaged, "dry_run": dry_run})
    else:
        typer.echo(
            f"Topic {topic} {'would be' if dry_run else 'is'} deleted: {described.partitions} partitions, {count(offsets)} offsets{more}."
        )


# -- how they look ----------------------------------------------------------------------------------------------


def _print_topics(found: list[Topic]) -> None:
    columns = [Column("topic"), *(Column(name, True) for name in ("partitions", "segment", "period", "max record"))]
    owned = any(topic.settings.owner for topic in found)
    rows = []
    for topic in found:
        period = str(Duration(topic.settings.period)) if topic.settings.period else "-"
        sizes = (str(Size(topic.settings.segment)), period, str(Size(topic.settings.max_record)))
        owner = [topic.settings.owner or "-"] if owned else []
        rows.append((topic.name, str(topic.partitions), *sizes, *owner))
    print_table([*columns, Column("owner")] if owned else columns, rows)


def _stats(log: Log, topic: Topic, partition: int) -> dict[str, Any]:
    """One shape for both engines; what only files have is null for Kafka."""
    from headwater.log.embedded.log import EmbeddedLog

    shown: dict[str, Any] = {"topic": topic.name, "partition": partition}
    if isinstance(log, EmbeddedLog):
        from headwater.log.embedded.check import stats as stats_of

        found: dict[str, Any] = msgspec.to_builtins(stats_of(log.reader(topic.name, partition)))
        found.pop("partition")
        return shown | found
    bounds = log.bounds(topic.name, partition)
    return shown | {"start": bounds.start, "end": bounds.end, "segments": None, "bytes": None, "epoch": None, "cuts": None, "damage": ""}


def _stats_row(one: dict[str, Any]) -> tuple[str, ...]:
    size = "-" if one["bytes"] is None else rounded_size(one["bytes"])
    numbers = [count(one[name]) if one[name] is not None else "-" for name in ("start", "end", "segments")]
    return (one["topic"], str(one["partition"]), *numbers, size, "-" if one["cuts"] is None else str(one["cuts"]), one["damage"] or "-")


def _span(log: Log, topic: str, partition: int) -> int | None:
    """How many offsets a partition has; None for a damaged one, which may be deleted, too."""
    from headwater.core.errors import Damaged

    try:
        bounds = log.bounds(topic, partition)
    except Damaged:
        return None
    return bounds.end - bounds.start
