"""What the doors and the commands do otherwise than the tables of operations say, each with its reason."""

from __future__ import annotations

from headwater.client.collection_indexes import CollectionIndexes
from headwater.client.collection_schema import CollectionSchema
from headwater.client.collection_views import CollectionViews
from headwater.client.document_resource import Resource
from headwater.client.documents import Documents
from headwater.client.index_templates import IndexTemplates
from headwater.client.journal_snapshots import JournalSnapshots
from headwater.client.named_projection import NamedProjection

CLASSES: dict[tuple[str, str], tuple[type, dict[str, str]]] = {
    ("journal", "snapshots_"): (JournalSnapshots, {"find": "load"}),
    ("journal", "projection_"): (NamedProjection, {}),
    ("documents", "index_"): (CollectionIndexes, {"post": "create", "get": "status", "delete": "drop"}),
    ("documents", "template_"): (IndexTemplates, {}),
    ("documents", "schema_"): (CollectionSchema, {}),
    ("documents", "view_"): (CollectionViews, {}),
    ("documents", "content_list"): (Documents, {"": "list"}),
    ("documents", "content_export"): (Documents, {"": "export"}),
    ("documents", "content_"): (Resource, {}),
}
"""Operations whose methods are those of an object of their own, by part and the beginning of their names; and what is named otherwise."""

BOUND = {"pipeline": "name", "queue": "name", "topic": "name"}
"""Fields that an object of the door holds under another name."""

HEADERS = {
    "idempotency": "idempotency_key",  # the header Idempotency-Key
    "if_match": "expected",  # the header If-Match: a document's own parameter has its name
    "prefer": "timeout",  # Prefer: wait, which of most operations is `wait`
    "last_event": "after",  # the header Last-Event-ID, which browsers send
}
"""Fields that are headers over HTTP, with the parameters that give them; the door goes on with a stream by itself."""

_LINES = "Pages and lines for programs without the door, whose own method reads all of it."
NO_METHOD = dict.fromkeys(
    (
        *("log_scan", "wal_read_page", "wal_read_lines", "wal_scan_lines"),
        *("journal_id_lines", "journal_read_page", "journal_read_lines", "journal_export_lines", "documents_feed_lines"),
    ),
    _LINES,
)

_NAME = "The object is made with the name, so the method that makes it takes it alone."
_WHICH = "The command line holds no region open: each command opens the region, changes it, and closes it."
NO_COMMAND = {
    **dict.fromkeys(("log_topic", "log_bounds"), "`log stats` shows the settings and the bounds of a topic."),
    "log_offset_at": "The commands go by offsets, and `log show` prints the time of each record.",
    **dict.fromkeys(NO_METHOD, "The command of the operation with the same address prints lines where its output is no terminal."),
    **dict.fromkeys(("wal_open", "wal_close", "wal_take_over"), _WHICH),
    "wal_sequence_num": "`wal tables` shows the last sequence of each table.",
    "wal_events": "Events tell programs that hold regions; a person sees them as `wal stats` changes.",
    "journal_append_many": "`journal append` appends to one journal, and `journal import` takes the lines of many.",
    "queue_leave": "Workers leave by themselves when they end.",
    "documents_transaction": "`doc transactions` lists them with their states.",
    "documents_batch": "`doc import` writes lines of a file, in batches.",
}
COMMANDS = {
    "pipeline_undo": "edit --undo",
    "wal_regions_of": "regions",
    "documents_index_post": "index create",
    "queue_dead_retry_all": "dead retry --all",
    "queue_dead_drop_all": "dead drop --all",
}
"""The command of an operation that is an option of another's."""

_TOPIC_NAME = "Topics are named `name` in Python, and by their part of the address over HTTP."
_QUEUE_NAME = "The object of all queues names one as `name`."
_PARTS_OF_INDEX = "The parts of the body are parameters of their own."
_ITEM = "An item of the collection is named beside the path; the conditions of a request that no program of the door needs stay headers."
_PREFIX = "`key` with a star is a prefix; the door asks for page after page."
_PROGRESS = "`progress` is called with how far the job is."
DIFFERENT: dict[str, tuple[str, str, str]] = {
    **dict.fromkeys(("log_create_topic", "log_topic", "log_delete_topic"), ("", "name", _TOPIC_NAME)),
    **dict.fromkeys(("log_append_by_key", "log_append"), ("", "records", "The body is the records.")),
    "log_offset_at": ("at", "timestamp", "Python has milliseconds, HTTP also ISO 8601."),
    "log_read": ("after decode", "", "The door reads bytes from an offset; JSON needs to know how to show them, and pages where to go on."),
    "log_tail": (
        "after decode key limit stop",
        "",
        "A tail is all records as bytes, for ever; pages and lines have the same address.",
    ),
    "log_delete_before": ("before", "offset", "The name of the method ends with it."),
    "wal_create": ("disposal max_record period replication segment", "settings", "The settings are one object in Python."),
    "wal_open": (
        "",
        "create on_pin take_over",
        "What to do with an absent or foreign region: operations of their own over HTTP.",
    ),
    "wal_close": ("graceful", "", "The door has `close_gracefully` beside it."),
    "wal_read": ("after decode limit stop", "batch end", "Bounds are objects in Python; payloads are bytes and come in batches."),
    "wal_scan": ("decode", "batch", "Payloads are bytes in Python, and come in batches."),
    **dict.fromkeys(("queue_create", "queue_delete"), ("queue", "name", _QUEUE_NAME)),
    "queue_put": ("rows", "row", "`OneQueue.put` puts one row; a `PutBatch` collects many for one request."),
    "queue_rows": ("after key", "prefix", _PREFIX),
    **dict.fromkeys(("queue_dead", "queue_dead_retry_all", "queue_dead_drop_all"), ("key", "prefix", _PREFIX)),
    "queue_get": ("by", "", "The door has `get_id` beside it."),
    "queue_claim": ("body", "done group lease n wait worker", "The parts of the body and of Prefer are parameters of their own."),
    **dict.fromkeys(("queue_done", "queue_extend"), ("queue", "", "A claim knows its queue; `OneQueue` has the same method with a token.")),
    "queue_result": ("wait", "", "A put's `result` waits as long as its `timeout`."),
    "queue_pause": ("paused", "", "The door has `resume` beside it."),
    "journal_ids": ("after limit view", "", "The door goes through all pages, and has `status` and `pointers` beside it."),
    "journal_append_many": ("lines", "appends", "The lines are made of `Append` objects."),
    "journal_append": ("body", "events expire_after header_metadata headers metadata tags", _PARTS_OF_INDEX),
    "journal_mark": ("mark", "", "The id of the mark is `id` in Python."),
    "journal_snapshots_find": ("newest", "", "The door has `load`, which is the newest, and `list`."),
    "journal_snapshots_save": ("body", "offset payload seq_nr", _PARTS_OF_INDEX),
    **dict.fromkeys(("journal_verify", "journal_rebuild"), ("", "progress", _PROGRESS)),
    "journal_import_lines": ("first_line", "", "The door counts the lines that it has sent."),
    **dict.fromkeys(("documents_content_list", "documents_content_export"), ("limit", "", "The door goes through all pages.")),
    "documents_content_get": (
        "count cursor explain filter if_none_match since size skip_max sort",
        "item type",
        "Over HTTP queries, explanations and changes since a revision are GET of the same address; the door has a method for each.",
    ),
    "documents_content_put": ("", "item", _ITEM),
    "documents_content_patch": ("if_none_match patch", "item kind", _ITEM),
    "documents_content_post": ("if_none_match", "", _ITEM),
    "documents_content_delete": ("if_none_match", "item", _ITEM),
    "documents_batch": ("atomic lines", "writes", "`Documents.batch` does each by itself, `Resource.batch` all or none."),
    "documents_index_post": ("new", "filter index materialize sort", _PARTS_OF_INDEX),
    "documents_index_put": ("new", "filter materialize sort", _PARTS_OF_INDEX),
    "documents_template_put": ("new", "filter materialize sort template", _PARTS_OF_INDEX),
    "documents_view_put": ("new", "filter template", _PARTS_OF_INDEX),
    "documents_schema_put": ("body", "schema", "The body is the schema."),
    "documents_feed": ("limit", "", "A feed is for ever; its program ends it."),
    "documents_history": ("limit", "item", _ITEM),
    "documents_restore": ("", "item", _ITEM),
    "documents_transaction": ("", "wait", "The seconds of Prefer: wait."),
    "documents_verify": ("", "progress", _PROGRESS),
}
"""The fields that are no parameters, the parameters that are no fields, and why."""
