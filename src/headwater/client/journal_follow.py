"""Follows a topic of journals: the events that its log keeps, then those that come."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

from headwater.client.local import LocalLog
from headwater.client.merge import merged
from headwater.journal.change import EventRow
from headwater.journal.claims import epochs_from, has_claims
from headwater.journal.open_topic import OpenTopic
from headwater.journal.partition import event_rows
from headwater.journal.position import FollowPosition
from headwater.journal.requests import FollowJournals
from headwater.log.record import Record


async def follow(
    log: LocalLog, find: Callable[[str], Awaitable[OpenTopic]], request: FollowJournals
) -> AsyncGenerator[tuple[str, EventRow, FollowPosition]]:
    """Journal, event and the position behind it, for ever. Events of one journal come in the order of the log.

    Deletes and Purges take nothing back: this is what was appended. Errors: `UnknownJournal`; `OffsetGone` for a position whose records
    the log has deleted; `UnreadableRecord`.
    """
    topic = await find(request.topic)
    position, tags, ids = request.position(), request.wanted_tags(), request.wanted_ids()
    wanted = frozenset(topic.place(id) for id in ids) if ids else frozenset(range(topic.topic.partitions))
    for number in sorted(wanted):
        if position.place(number)[0] is None:
            position = position.at(number, (await log.bounds(topic.topic.name, number)).start)
    tails: dict[int, AsyncIterator[list[Record]]] = {
        number: log.follow(topic.topic.name, number, position.place(number)[0] or 0) for number in wanted
    }
    claimed = has_claims(topic.log, topic.topic)
    epochs = {number: epochs_from(0, claimed=claimed) for number in wanted}
    async for arrived in merged(tails):
        for number, records in arrived:
            for record in records:
                offset = record.offset or 0
                skip = position.place(number)[1] if position.place(number)[0] == offset else 0
                behind = position.at(number, offset + 1)
                if record.key is None or not epochs[number].admits(record) or (ids and record.key.decode(errors="replace") not in ids):
                    position = behind
                    continue
                rows = event_rows(record, number)
                for index, row in enumerate(rows, 1):
                    if index <= skip or (tags and not tags.intersection(row.tags)):
                        continue
                    position = behind if index == len(rows) else position.at(number, offset, index)
                    yield record.key.decode(), row, position
                position = behind
