"""`headwater log topics | create | stats | delete-before | delete-topic`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.options import PartitionNumber, TopicIfAny, TopicName
from headwater.cli.output import Column, agreed, count, print_json, print_table
from headwater.core.errors import BadBounds, BadInput, Damaged
from headwater.core.period import Period
from headwater.core.units import Size, rounded_size
from headwater.log.json_form import show_topic
from headwater.log.owners import check_owner
from headwater.log.record import Topic

if TYPE_CHECKING:
    from headwater.client.blocking import BlockingLog
    from headwater.log.answers import PartitionContent


@command()
def topics(at: At) -> None:
    """List every topic with its partitions and settings."""
    with at.door() as hw:
        listed = hw.log.topics()
    if at.json:
        print_json([show_topic(topic) for topic in listed])
    elif listed:
        _print_topics(listed)
    else:
        typer.echo(f"There are no topics. `{at.command('log create TOPIC')}` makes one.", err=True)


@command(example="headwater log create orders --partitions 4")
def create(
    topic: TopicName,
    at: At,
    partitions: Annotated[int, typer.Option("--partitions", metavar="N", help="How many; this never changes afterwards.")] = 1,
    segment: Annotated[
        str | None, typer.Option("--segment", metavar="SIZE", help="Close segments at this size (setting `log.segment`).")
    ] = None,
    period: Annotated[
        str | None,
        typer.Option(
            "--period", metavar="PERIOD", help="Close segments at the end of the UTC hour, day or month, or of a duration (`log.period`)."
        ),
    ] = None,
    max_record: Annotated[
        str | None, typer.Option("--max-record", metavar="SIZE", help="Refuse records above this size (setting `log.max_record`).")
    ] = None,
    disposal: Annotated[
        str | None,
        typer.Option(
            "--disposal",
            metavar="POLICY",
            help="delete, reset or truncate the files of deleted segments, or secure- and one of these (`log.disposal`).",
        ),
    ] = None,
) -> None:
    """Make a topic. One that is there with the same partitions and settings is left as it is."""
    settings = {"segment": segment, "period": period, "max_record": max_record, "disposal": disposal}
    with at.door(changes=True, creates=True) as hw:
        made = hw.log.create_topic(
            topic, partitions=partitions, settings={name: value for name, value in settings.items() if value is not None}
        )
    if at.json:
        print_json(show_topic(made))
    else:
        _print_topics([made])


@command()
def stats(
    at: At,
    topic: TopicIfAny = None,
) -> None:
    """Show each partition's offsets, segments, bytes, cut torn tails, drained and spare files, and damage."""
    with at.door() as hw:
        names = [described.name for described in hw.log.topics()] if topic is None else [topic]
        contents = [content for name in names for content in hw.log.stats(name)]
    if at.json:
        print_json(contents)
        return
    disposing = any(content.drained or content.spares for content in contents)
    numbers = ("partition", "start", "end", "segments", "bytes", "cuts", *(("drained", "spares") if disposing else ()))
    columns = [Column("topic"), *(Column(name, True) for name in numbers), Column("damage")]
    print_table(columns, [_stats_row(content, disposing) for content in contents])


@command("yes", "dry_run", example="headwater log delete-before orders 1000 --dry-run")
def delete_before(
    topic: TopicName,
    offset: Annotated[int, typer.Argument(metavar="OFFSET", min=0, help="The first offset to keep.", show_default=False)],
    at: At,
    partition: PartitionNumber = None,
) -> None:
    """Delete every record below an offset, for good."""
    with at.door(changes=not at.dry_run) as hw:
        described = hw.log.topic(topic)
        check_owner(topic, described.settings.owner, "", "delete_before")  # before the question
        number = only_partition(described, partition, "an offset belongs to one of them")
        bounds = hw.log.bounds(topic, number)
        if offset > bounds.end:
            raise BadBounds(f"{topic} {number} ends before offset {bounds.end}; {offset} is beyond.", hint=f"Give {bounds.end} or less.")
        start = max(offset, bounds.start)
        if start > bounds.start and not at.dry_run:
            if not agreed(f"Delete offsets {bounds.start} to {offset - 1} of {topic} {number} for good?", yes=at.yes):
                return
            start = hw.log.delete_before(topic, number, offset)
    answer: dict[str, Any] = {
        "topic": topic,
        "partition": number,
        "start_before": bounds.start,
        "start": start,
        "end": bounds.end,
        "dry_run": at.dry_run,
    }
    would = "would begin" if at.dry_run else "begins"
    at.answered(answer, f"{topic} {number} {would} at offset {start}; before it was {bounds.start}.")


@command("yes", "dry_run")
def delete_topic(topic: TopicName, at: At) -> None:
    """Remove a topic and all of its records, for good."""
    with at.door(changes=not at.dry_run) as hw:
        described = hw.log.topic(topic)
        check_owner(topic, described.settings.owner, "", "delete_topic")
        spans = [_span(hw.log, topic, number) for number in range(described.partitions)]
        offsets, damaged = sum(span or 0 for span in spans), [number for number, span in enumerate(spans) if span is None]
        more = f" and what is left in the damaged partitions {', '.join(map(str, damaged))}" if damaged else ""
        if not at.dry_run:
            description = f"topic {topic} with {count(offsets)} offsets in {described.partitions} partitions{more}"
            if not agreed(f"Delete {description} for good?", yes=at.yes):
                return
            hw.log.delete_topic(topic)
    answer = {"topic": topic, "partitions": described.partitions, "offsets": offsets, "damaged": damaged, "dry_run": at.dry_run}
    is_ = "would be" if at.dry_run else "is"
    at.answered(answer, f"Topic {topic} {is_} deleted: {described.partitions} partitions, {count(offsets)} offsets{more}.")


def only_partition(topic: Topic, partition: int | None, why: str) -> int:
    """The partition that was named, or the only one. Errors: `BadInput` when there are several and none was named."""
    if partition is not None:
        return partition
    if topic.partitions > 1:
        raise BadInput(f"Topic {topic.name} has {topic.partitions} partitions; {why}.", hint="Name one with --partition N.")
    return 0


# -- how they look ----------------------------------------------------------------------------------------------


def _print_topics(listing: list[Topic]) -> None:
    columns = [Column("topic"), *(Column(name, True) for name in ("partitions", "segment", "period", "max record"))]
    owned = any(topic.settings.owner for topic in listing)
    disposed = any(topic.settings.disposal != "delete" for topic in listing)
    rows = []
    for topic in listing:
        period = Period.of(topic.settings.period) if topic.settings.period else "-"
        sizes = (str(Size(topic.settings.segment)), period, str(Size(topic.settings.max_record)))
        more = [topic.settings.disposal] * disposed + [topic.settings.owner or "-"] * owned
        rows.append((topic.name, str(topic.partitions), *sizes, *more))
    print_table([*columns, *[Column("disposal")] * disposed, *[Column("owner")] * owned], rows)


def _stats_row(partition: PartitionContent, disposing: bool) -> tuple[str, ...]:
    numbers = ["-" if number is None else count(number) for number in (partition.start, partition.end, partition.segments)]
    size, cuts = "-" if partition.bytes is None else rounded_size(partition.bytes), "-" if partition.cuts is None else str(partition.cuts)
    files = [str(partition.drained or 0), str(partition.spares or 0)] if disposing else []
    return (partition.topic, str(partition.partition), *numbers, size, cuts, *files, partition.damage or "-")


def _span(log: BlockingLog, topic: str, partition: int) -> int | None:
    """The number of offsets in a partition; None for a damaged one, which may be deleted, too."""
    try:
        bounds = log.bounds(topic, partition)
    except Damaged:
        return None
    return bounds.end - bounds.start
