"""Sends a request to the owner of a partition after `NotOwner`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar, cast

import msgspec

from headwater.client.backend import Backend
from headwater.client.job import Job
from headwater.core.errors import HeadwaterError, NotOwner, Unreachable
from headwater.wire.line_owners import answered_lines, lines_elsewhere, refused_lines
from headwater.wire.operation import Operation, R

A = TypeVar("A")
T = TypeVar("T")
Connect = Callable[[str], Backend]

_HOPS = 3  # hops to follow: an owner may have passed the partition on meanwhile, but processes may also name each other in a circle


class ForwardingBackend(Backend):
    """Asks `near` first, and after `NotOwner` the owner at the address in the error.

    If the owner does not answer, it has died: then this asks `near` once more, which may own the partition now. Errors are those of the
    last backend asked; an owner without an address is `NotOwner`, and one that does not answer twice is `Unreachable`, which names it. A
    job that gets `NotOwner` after its start ends with it. Lines that are done by themselves go to their owners by themselves; those of an
    owner that does not answer are asked of `near` once more. `connect` makes the backend for an address.
    """

    def __init__(self, near: Backend, *, connect: Connect) -> None:
        self.near, self._connect = near, connect
        self._far: dict[str, Backend] = {}

    async def ask(self, operation: Operation[R, A], request: R) -> A:
        answer = await self._anywhere(lambda backend: backend.ask(operation, request))
        return cast("A", await self._by_line(operation, request, cast("bytes", answer))) if operation.by_line else answer

    async def start(self, operation: Operation[R, A], request: R) -> Job[A]:
        return await self._anywhere(lambda backend: backend.start(operation, request))

    async def stream(self, operation: Operation[R, A], request: R, resume: Callable[[A], R] | None = None) -> AsyncIterator[A]:
        async def begun(backend: Backend) -> tuple[list[A], AsyncIterator[A]]:
            items = aiter(backend.stream(operation, request, resume))
            async for first in items:
                return [first], items
            return [], items

        first, items = await self._anywhere(begun)
        for item in first:
            yield item
        async for item in items:
            yield item

    def performer_here(self, part: str) -> Any | None:
        return self.near.performer_here(part)

    def at(self, address: str) -> Backend:
        return self._at(address)

    async def aclose(self) -> None:
        far, self._far = self._far, {}
        for backend in far.values():
            await backend.aclose()
        await self.near.aclose()

    async def _anywhere(self, call: Callable[[Backend], Awaitable[T]]) -> T:
        backend, owner, tried_again, hops = self.near, NotOwner(""), False, -1
        while True:
            hops += 1
            try:
                return await call(backend)
            except NotOwner as error:
                if hops == _HOPS or not error.address.startswith(("http://", "https://")):
                    raise
                backend, owner = self._at(error.address), error
            except Unreachable as error:
                if backend is self.near:
                    raise
                if tried_again or hops == _HOPS:
                    raise Unreachable(f"{owner.message} {error.message}", hint=owner.hint) from error
                backend, tried_again = self.near, True

    async def _by_line(self, operation: Operation[Any, Any], request: Any, answer: bytes) -> bytes:
        """The answer, in which owners have done the lines that were theirs."""
        answers, dead = answer.splitlines(), set[str]()

        async def asked(address: str, numbers: list[int]) -> None:
            part = msgspec.structs.replace(request, lines=tuple(request.lines[number] for number in numbers))
            try:
                got = answered_lines(await (self.near if address in dead else self._at(address)).ask(operation, part), len(numbers))
            except Unreachable:
                if address in dead:
                    return
                dead.add(address)
                await asked(address, numbers)
                return
            except HeadwaterError as error:
                got = refused_lines(error, len(numbers))
            for number, line in zip(numbers, got, strict=True):
                answers[number] = line

        for _ in range(_HOPS):
            elsewhere = {address: numbers for address, numbers in lines_elsewhere(answers).items() if address not in dead}
            if not elsewhere:
                break
            await asyncio.gather(*(asked(address, numbers) for address, numbers in elsewhere.items()))
        return b"".join(line + b"\n" for line in answers)

    def _at(self, address: str) -> Backend:
        if address not in self._far:
            self._far[address] = self._connect(address)
        return self._far[address]
