"""Performs the operations on the keys of encrypted journals in this process."""

from __future__ import annotations

import asyncio
from typing import Any

from headwater.client.journal_topics import OpenTopics
from headwater.core.errors import BadConfig, BadInput
from headwater.journal.cipher_operations import ERASE, ErasedJournal, EraseJournal, RotatedKeys, RotateKeys
from headwater.journal.envelope import is_sealed
from headwater.journal.open_topic import OpenTopic
from headwater.journal.read import JournalRead
from headwater.journal.write import ActionPlaced, EraseDraft
from headwater.wire.operation import Operation


class JournalCiphers:
    """One method for each operation of the same name."""

    def __init__(self, topics: OpenTopics) -> None:
        self._topics = topics

    async def perform(self, operation: Operation[Any, Any], request: Any, who: str) -> Any:
        """Perform one of them. `who`: the caller, whom the audit names."""
        return await (self.erase(request, who) if operation is ERASE else self.rotate(request))

    async def check(self, cipher: str) -> None:
        """Before a topic is created with a cipher. Errors: `BadInput` for an unknown one; `BadConfig` without a master key."""
        from headwater.journal.cipher import cipher_named

        cipher_named(cipher)
        if await self._topics.work_with_log(self._topics.keys) is None:
            raise BadConfig(
                "Encryption needs a master key, and none is configured.", hint="Set `journal.key_file` or `journal.key_variable`."
            )

    async def turn_on(self, topic: str, cipher: str) -> str:
        """Encrypt what is appended to a topic from now on; the cipher that it has."""
        opened = await self._topics.find(topic)
        await asyncio.to_thread(lambda: opened.cipher.turn_on(cipher=cipher))
        return cipher

    async def erase(self, request: EraseJournal, who: str = "") -> ErasedJournal:
        plan = await self._topics.reading(request.topic, lambda topic: _plan(topic, request))
        if request.dry_run or not plan.done:
            return plan

        async def write(opened: OpenTopic) -> Any:
            return await opened.writer(request.id).write(EraseDraft(request.id, who, request.why))

        placed = await self._topics.writing(request.topic, write)
        if not isinstance(placed, ActionPlaced):  # another process was faster
            return ErasedJournal(id=request.id, done=False)
        return ErasedJournal(
            id=request.id,
            done=True,
            events=plan.events,
            clear=plan.clear,
            keys=plan.keys,
            partition=placed.partition,
            offset=placed.offset if placed.offset >= 0 else None,
        )

    async def rotate(self, request: RotateKeys) -> RotatedKeys:
        def rotate(topic: OpenTopic) -> RotatedKeys:
            _check_on(topic)
            keys = topic.cipher.keys()
            count, older = keys.rotate(topic.topic.name, dry_run=request.dry_run)
            return RotatedKeys(topic=topic.topic.name, master=keys.masters.newest, keys=count, rewrapped=older, dry_run=request.dry_run)

        return await self._topics.reading(request.topic, rotate)


def _check_on(topic: OpenTopic) -> None:
    if topic.cipher.name(fresh=True) is None:
        name = topic.topic.name
        raise BadInput(
            f"Topic {name} is not encrypted: nothing makes its events unreadable.",
            hint=f"Remove a journal with `headwater journal purge`, or encrypt what comes: `headwater journal create {name} --cipher`.",
        )


def _plan(topic: OpenTopic, request: EraseJournal) -> ErasedJournal:
    """What an erasure would do."""
    _check_on(topic)
    partition = topic.partition(request.id)
    end = partition.end()
    exists = partition.joined(request.id, end).head is not None
    stored = topic.cipher.keys().store.keys(topic.topic.name, [request.id]).get(request.id, [])
    left = [key for key in stored if key.state != "destroyed"]
    events = clear = 0
    read = JournalRead(partition, request.id, end=end)
    while exists and (rows := read.page()):
        events += len(rows)
        clear += sum(not is_sealed(row.payload) for row in rows)
    return ErasedJournal(
        id=request.id,
        done=exists or bool(left),
        events=events,
        clear=clear,
        keys=sum(bool(key.wrapped) for key in left),
        partition=partition.number,
        dry_run=request.dry_run,
    )
