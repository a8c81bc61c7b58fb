"""Topics of journals and their changes as the answers show them: ids, pointers, status, what a Delete did."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge

import msgspec

from headwater.core.errors import AlreadyExists, UnreadableRecord
from headwater.journal import answers, requests
from headwater.journal.change import Pointer
from headwater.journal.cipher_control import CipherControl
from headwater.journal.grown import GrownJournal
from headwater.journal.ids import journal_ids
from headwater.journal.open_topic import OpenTopic
from headwater.journal.partition import JournalPartition
from headwater.journal.status import ReplicatorStatus
from headwater.journal.topics import JournalTopics
from headwater.journal.write import ActionPlaced, Outcome
from headwater.log.record import Topic
from headwater.wire.times import show_time


def show_topics(topics: JournalTopics, wanted: Sequence[Topic] | None = None) -> Sequence[answers.ShownJournals]:
    """Every topic of journals, or those that are `wanted`."""
    shown = []
    for topic in topics.list() if wanted is None else wanted:
        control = CipherControl(topics.log, topic.name)
        control.look()
        cipher, writers = None if control.on is None else control.on.cipher, topics.writers(topic)
        shown.append(
            answers.ShownJournals(
                topic=topic.name, partitions=topic.partitions, writers=writers, generation=topic.generation, cipher=cipher
            )
        )
    return shown


def show_creation(topics: JournalTopics, request: requests.CreateJournals) -> answers.ShownJournals:
    """What `create` would answer. Errors: `AlreadyExists`, as it would raise."""
    existing, count = topics.creation(request.topic, request.partitions)
    if existing is None:
        name, cipher = topics.name(request.topic), request.cipher or None
        return answers.ShownJournals(topic=name, partitions=count, writers="owner", created=True, cipher=cipher, dry_run=True)
    if request.partitions not in (0, existing.partitions):
        raise AlreadyExists(
            f"Topic {existing.name} has {existing.partitions} partitions, not {request.partitions}.",
            hint="A partition count never changes, because keys would move: leave the number out, or choose another name.",
        )
    (shown,) = show_topics(topics, [existing])
    return msgspec.structs.replace(shown, cipher=shown.cipher or request.cipher or None, dry_run=True)


def show_change(outcome: Outcome) -> answers.JournalChanged:
    """What a Delete, Purge or Mark did, and where it lies."""
    if outcome is None:
        return answers.JournalChanged(done=False)
    assert isinstance(outcome, ActionPlaced)
    return answers.JournalChanged(done=True, partition=outcome.partition, offset=outcome.offset, to=outcome.to or None)


def topic_ids(topic: OpenTopic, after: str | None, limit: int) -> list[str]:
    """Ids of a topic's journals behind `after`, sorted by their UTF-8 bytes."""
    topic.journal("any")  # finds out whether the topic grew
    ids: list[str] = []
    while len(ids) < limit:
        each = [journal_ids(partition, after, limit) for partition in topic.partitions]
        names = list(dict.fromkeys(merge(*each, key=str.encode)))[:limit]
        if topic.grown:  # a journal in several places may be purged in the newest
            ids += [id for id in names if (grown := topic.journal(id)) is None or _lives(grown, topic.partition(id))]
        else:
            ids += names
        if not topic.grown or len(names) < limit:
            break
        after = names[-1]
    return ids[:limit]


def _lives(journal: GrownJournal, newest: JournalPartition) -> bool:
    try:
        return journal.head(newest.end()) is not None
    except UnreadableRecord:
        return True  # listed, as others with such a record


def show_pointer(partition: JournalPartition) -> answers.ShownPointer:
    """How far a partition is copied."""
    pointer, end = partition.pointer(), partition.end()
    return answers.ShownPointer(
        partition=partition.number,
        offset=pointer.offset,
        end=end,
        lag=max(0, end - pointer.offset - 1),
        created=_time(pointer, pointer.created),
        updated=_time(pointer, pointer.updated),
    )


def _time(pointer: Pointer, ms: int) -> str | int | None:
    return None if pointer.offset < 0 else show_time(ms)


def show_status(topic: OpenTopic, engine: str, status: ReplicatorStatus | None = None) -> answers.TopicStatus:
    """A topic and its partitions. `engine`: of the store. `status`: of the replicator of the same data directory."""
    name = topic.topic.name
    if status is None or name not in status.topics:
        status = None
    stopped = (
        {}
        if status is None
        else {partition.partition: partition.problem for partition in status.partitions if partition.topic == name and partition.problem}
    )
    partitions = [
        _partition_status(partition, "" if problem is None else f"{problem.message} {problem.hint}".strip())
        for partition in topic.partitions
        for problem in (stopped.get(partition.number),)
    ]
    return answers.TopicStatus(
        topic=topic.topic.name,
        writers=topic.writers,
        generation=topic.topic.generation,
        store=engine,
        engine=None if status is None else status.engine,
        cipher=topic.cipher.name(fresh=True),
        lag=sum(partition.lag for partition in partitions),
        partitions=partitions,
    )


def _partition_status(partition: JournalPartition, problem: str) -> answers.JournalPartitionStatus:
    pointer, bounds, cache = partition.pointer(), partition.bounds(), partition.cache
    counted = {} if cache is None else {
        "cached": len(cache), "hits": cache.counts.hit, "misses": cache.counts.miss, "ahead": cache.counts.ahead,
        "limited": cache.counts.limited, "behind": cache.counts.behind,
    }  # fmt: skip
    lag = max(0, bounds.end - pointer.offset - 1)
    return answers.JournalPartitionStatus(
        partition=partition.number,
        start=bounds.start,
        end=bounds.end,
        pointer=pointer.offset,
        lag=lag,
        updated=_time(pointer, pointer.updated),
        duplicates=partition.duplicates.dropped,
        problem=problem if lag else "",  # what was told may be older than the pointer
        **counted,
    )
