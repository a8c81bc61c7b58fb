"""The operations on templates of indexes: a part of the table in `headwater.documents.operations`."""

from __future__ import annotations

from typing import Final

from headwater.core.document_errors import BadFilter, BadPath, UnknownIndex
from headwater.core.errors import AlreadyExists, Busy, Damaged, DiskFull, Fenced, NotOwner, OutcomeUnknown, Unavailable
from headwater.documents import template_requests as requests
from headwater.wire import json
from headwater.wire.operation import Operation, Paging, Role

_TEMPLATES: Final = "/hyper-storage/template-indexes"
_TEMPLATE: Final = f"{_TEMPLATES}/{{index}}"
_READS = (Damaged, Unavailable)
_WRITES = (*_READS, BadPath, BadFilter, Busy, DiskFull, Fenced, NotOwner, OutcomeUnknown)


def _send(request: requests.PutTemplate) -> tuple[str, bytes]:
    return "application/json", json.encode(request.new)


TEMPLATE_LIST = Operation(
    part="documents",
    name="template_list",
    method="GET",
    path=_TEMPLATES,
    request=requests.ListTemplates,
    answer=list[requests.ShownTemplate],
    role=Role.READER,
    says="Every template of indexes, by id.",
    paging=Paging(by=("index_id",), usual=100, most=1000),
    commands={"template list": ""},
    errors=_READS,
)
TEMPLATE_GET = Operation(
    part="documents",
    name="template_get",
    method="GET",
    path=_TEMPLATE,
    request=requests.TemplateRequest,
    answer=requests.ShownTemplate,
    role=Role.READER,
    says="A template: the index that collections get, and which collections.",
    commands={"template show {index}": ""},
    errors=(*_READS, UnknownIndex),
)
TEMPLATE_PUT = Operation(
    part="documents",
    name="template_put",
    method="PUT",
    path=_TEMPLATE,
    request=requests.PutTemplate,
    answer=requests.ShownTemplate,
    role=Role.OPERATOR,
    changes=True,
    says="Make a template: every collection whose path fits gets its index, those that are there and those that come.",
    statuses={201: "Collections get it.", 200: "It was there, or what would be done."},
    content={"application/json": {"$struct": requests.TemplateNew}},
    sends=_send,
    commands={"template put {index}": ""},
    errors=(*_WRITES, AlreadyExists),
)
TEMPLATE_DELETE: Operation[requests.DeleteTemplate, None] = Operation(
    part="documents",
    name="template_delete",
    method="DELETE",
    path=_TEMPLATE,
    request=requests.DeleteTemplate,
    answer=None,
    role=Role.OPERATOR,
    changes=True,
    says="Take a template away. The indexes that it made stay.",
    commands={"template delete {index}": ""},
    errors=(*_WRITES, UnknownIndex),
)
TEMPLATING = (TEMPLATE_LIST, TEMPLATE_GET, TEMPLATE_PUT, TEMPLATE_DELETE)
