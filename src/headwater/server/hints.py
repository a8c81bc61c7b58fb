"""Replaces commands in hints by HTTP requests, for clients without a command line.

Errors name the next command (`headwater log create bank`). This turns a command into the request of the same operation. A command on files
of the server's machine stays as it is.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from headwater.core.errors import HeadwaterError
from headwater.documents import follow_operations as document_changes
from headwater.documents import index_operations as document_indexes
from headwater.documents import operations as documents
from headwater.documents import schema_operations as document_schemas
from headwater.documents import template_operations as document_templates
from headwater.log import operations as log
from headwater.pipeline import operations as pipeline
from headwater.queue import dead_operations as queue_dead
from headwater.queue import operations as queue
from headwater.wal import operations as wal
from headwater.wire.operation import Operation
from headwater.wire.problems import Problem, problem_of

_COMMAND = re.compile(r"(`|^ *)headwater ([^`\n]+)", re.MULTILINE)
_OPTION = re.compile(r" --[a-z-]+(?: (?!--)\S+)?")
_REGION = r"(?P<namespace>[^/\s]+)/(?P<region>\d+)"
_SINK = r"(?P<name>\S+) (?P<sink>\S+)"
# A command without its options, its operation, and a query. The named groups fill the operation's path.
_REQUESTS: tuple[tuple[str, Operation[Any, Any], str], ...] = (
    ("log topics", log.TOPICS, ""),
    (r"log create (?P<topic>\S+)", log.CREATE_TOPIC, ""),
    (r"log stats (?P<topic>\S+)", log.STATS, ""),
    ("pipeline list", pipeline.LIST, ""),
    (r"pipeline status (?P<name>\S+)", pipeline.STATUS, ""),
    (r"pipeline stop (?P<name>\S+)", pipeline.STOP, ""),
    (r"pipeline offset (?P<name>\S+) list", pipeline.OFFSETS, ""),
    (r"pipeline offset (?P<name>\S+) mark (?P<sink>\S+) \S+", pipeline.MARK, ""),
    (r"pipeline xlog (?P<name>\S+) current", pipeline.MESSAGES, ""),
    (r"pipeline xlog (?P<name>\S+) show (?P<from>\d+)", pipeline.MESSAGES, "?from={from}&to={from}"),
    (rf"pipeline ack {_SINK} \S+", pipeline.ACK, ""),
    (rf"pipeline replay {_SINK} \S+", pipeline.REPLAY, ""),
    (rf"pipeline step {_SINK}", pipeline.STEP, ""),
    (r"pipeline edit (?P<name>\S+) (?P<offset>\d+|OFFSET)", pipeline.EDIT, ""),
    (r"pipeline compact (?P<name>\S+)", pipeline.COMPACT, ""),
    (r"pipeline remove (?P<name>\S+)", pipeline.REMOVE, ""),
    (r"pipeline dead (?P<name>\S+) list", pipeline.DEAD, ""),
    (r"pipeline dead (?P<name>\S+) retry (?P<offset>\d+)", pipeline.RETRY, ""),
    (r"pipeline dead (?P<name>\S+) drop (?P<offset>\d+)", pipeline.DROP, ""),
    ("wal regions", wal.REGIONS, ""),
    (rf"wal create {_REGION}", wal.CREATE, ""),
    (rf"wal tables {_REGION}", wal.TABLES, ""),
    (rf"wal clean {_REGION}", wal.CLEAN, ""),
    (rf"wal delete {_REGION}", wal.DELETE, ""),
    (rf"wal why {_REGION}", wal.WHY, ""),
    (rf"wal recover {_REGION}", wal.RECOVER, ""),
    (rf"wal mark {_REGION} (?P<table>\d+) \d+", wal.MARK_DELETE_UP_TO, ""),
    (rf"wal move {_REGION} (?P<table>\d+)", wal.MOVE, ""),
    ("queue list", queue.LIST, ""),
    (r"queue create (?P<queue>\S+)", queue.CREATE, ""),
    (r"queue delete (?P<queue>\S+)", queue.DELETE, ""),
    (r"queue rows (?P<queue>\S+)", queue.ROWS, ""),
    (r"queue stats (?P<queue>\S+)", queue.STATISTICS, ""),
    (r"queue (?:pause|resume) (?P<queue>\S+)", queue.PAUSE, ""),
    (r"queue dead (?P<queue>\S+) list", queue_dead.DEAD, ""),
    (r"queue dead (?P<queue>\S+) retry (?P<id>\d+)", queue_dead.DEAD_RETRY, ""),
    (r"doc put (?P<path>\S+)(?: \S+)?", documents.CONTENT_PUT, ""),
    (r"doc post (?P<path>\S+)(?: \S+)?", documents.CONTENT_POST, ""),
    (r"doc list", documents.CONTENT_LIST, ""),
    (r"doc history (?P<path>\S+)", document_changes.HISTORY, ""),
    (r"doc status", document_changes.STATUS, ""),
    (r"doc verify", document_changes.VERIFY, ""),
    (r"doc rebuild", document_changes.REBUILD, ""),
    (r"doc template list", document_templates.TEMPLATE_LIST, ""),
    (r"doc template delete (?P<index>\S+)", document_templates.TEMPLATE_DELETE, ""),
    (r"doc view list", document_indexes.VIEW_LIST, ""),
    (r"doc schema show (?P<path>\S+)", document_schemas.SCHEMA_GET, ""),
    (r"doc schema put (?P<path>\S+).*", document_schemas.SCHEMA_PUT, ""),
    (r"doc index list (?P<path>\S+)", document_indexes.INDEX_LIST, ""),
    (r"doc index create (?P<path>\S+) (?P<index>\S+).*", document_indexes.INDEX_PUT, ""),
    (r"doc index drop (?P<path>\S+) (?P<index>\S+)", document_indexes.INDEX_DELETE, ""),
)


def http_problem(error: HeadwaterError, error_id: str) -> Problem:
    """The problem for an error: `hint` names requests, `command` the original commands."""
    problem = problem_of(error, error_id)
    hint = http_hint(error.hint)
    return problem if hint == error.hint else msgspec.structs.replace(problem, hint=hint, command=error.hint)


def http_hint(hint: str) -> str:
    """The hint with requests instead of commands."""
    return _COMMAND.sub(lambda found: f"{found[1]}{_request(found[2]) or f'headwater {found[2]}'}", hint)


def _request(command: str) -> str | None:
    words = _OPTION.sub("", command).strip()
    for pattern, operation, query in _REQUESTS:
        if found := re.fullmatch(pattern, words):
            return f"{operation.method} {operation.path}{query}".format(**found.groupdict())
    return None
