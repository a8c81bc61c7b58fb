"""What one worker of a server asks of another about documents, and what that answers: frames between their processes."""

from __future__ import annotations

import msgspec

from headwater.documents.partition_status import PartitionStanding
from headwater.documents.write import BatchDraft, Draft, WrittenDocument
from headwater.wire.problems import Problem


class ForwardedWrite(msgspec.Struct, frozen=True, tag=0, array_like=True):
    """A write that another worker got."""

    draft: Draft


class ForwardedBatch(msgspec.Struct, frozen=True, tag=1, array_like=True):
    """An atomic batch that another worker got."""

    batch: BatchDraft


class ForwardedRebuild(msgspec.Struct, frozen=True, tag=2, array_like=True):
    """The store of a partition is to be folded anew."""

    partition: int


class ForwardedLook(msgspec.Struct, frozen=True, tag=3, array_like=True):
    """How a partition is."""

    partition: int


class RefusedCall(msgspec.Struct, frozen=True, tag=9, array_like=True):
    """The answer to a call that failed."""

    problem: Problem


class WrittenThere(msgspec.Struct, frozen=True, tag=10, array_like=True):
    """The answer to writes."""

    documents: tuple[WrittenDocument, ...]


class RebuiltThere(msgspec.Struct, frozen=True, tag=11, array_like=True):
    """The answer to `ForwardedRebuild`."""


class StandingThere(msgspec.Struct, frozen=True, tag=12, array_like=True):
    """The answer to `ForwardedLook`."""

    standing: PartitionStanding


Forwarded = ForwardedWrite | ForwardedBatch | ForwardedRebuild | ForwardedLook
ForwardedAnswer = RefusedCall | WrittenThere | RebuiltThere | StandingThere
encode = msgspec.msgpack.Encoder().encode
decode_call = msgspec.msgpack.Decoder(Forwarded).decode
decode_answer = msgspec.msgpack.Decoder(ForwardedAnswer).decode
