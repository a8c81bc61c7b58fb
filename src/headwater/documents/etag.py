"""Tags of documents in HTTP: a revision as a strong ETag, and the conditions If-Match and If-None-Match."""

from __future__ import annotations

import re

from headwater.core.errors import BadInput
from headwater.documents.write import ANY_STATE, Precondition

_TAG = re.compile(r'\s*(W/)?"([!#-~\x80-\xff]*)"\s*(?:,|$)')
_REVISION = re.compile(r"[0-9]{1,19}")
_NEVER = -1  # the revision of a tag that is none of ours: no document has it


def etag(revision: int) -> str:
    """The strong tag of a revision."""
    return f'"{revision}"'


def condition_of(if_match: str | None, if_none_match: str | None) -> Precondition:
    """The condition that the two headers make. Errors: `BadInput`.

    If-Match compares strongly, so a weak tag matches nothing; If-None-Match compares weakly (RFC 9110, 13.1).
    """
    if if_match is None and if_none_match is None:
        return ANY_STATE
    return Precondition(_revisions("If-Match", if_match, weak=False), _revisions("If-None-Match", if_none_match, weak=True))


def matches(revisions: tuple[int, ...], revision: int | None) -> bool:
    """Whether tags name the revision of what is there; None: nothing is there. No tags stand for `*`."""
    return revision is not None and (not revisions or revision in revisions)


def _revisions(header: str, written: str | None, *, weak: bool) -> tuple[int, ...] | None:
    if written is None:
        return None
    if written.strip() == "*":
        return ()
    revisions: list[int] = []
    at = 0
    while at < len(written):
        tag = _TAG.match(written, at)
        if tag is None:
            raise BadInput(f"{header}: {written[:60]} is no list of tags.", hint=f'Send the ETag of a read, such as {header}: "3", or *.')
        at = tag.end()
        is_revision = _REVISION.fullmatch(tag[2]) and (weak or not tag[1])
        revisions.append(int(tag[2]) if is_revision else _NEVER)
    if not revisions:
        raise BadInput(f"{header} is empty.", hint=f'Send the ETag of a read, such as {header}: "3", or *.')
    return tuple(revisions)
