"""OpenSearch, and Elasticsearch where it answers the same requests: indices as source and sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from headwater.core.errors import BadConfig, BadInput
from headwater.core.units import Duration, Size
from headwater.pipeline.adaptor import About
from headwater.pipeline.env import Env
from headwater.pipeline.options import DecimalsOption, Means, factory
from headwater.pipeline.sink_adaptor import CanWrite, Delivery
from headwater.pipeline.source_adaptor import CanCopy

if TYPE_CHECKING:
    from headwater.adaptors.opensearch.client import SearchClient

FORBIDDEN = frozenset('\\/*?"<>| ,#:')
DAY = 24 * 3_600_000  # milliseconds, the longest keep-alive of a scroll
LONGEST_INDEX = 255  # bytes, a limit of the server


class OpenSearch(CanCopy, CanWrite, frozen=True, kw_only=True):
    """A cluster. `index` names the index for every namespace, `{namespace}` in it stands for the namespace."""

    kind: ClassVar[str] = "opensearch"
    delivery: ClassVar[Delivery] = "at least once"
    about: ClassVar[About] = About(
        summary="OpenSearch indices; Elasticsearch 7 answers the same requests.",
        namespace="an index, as a source. As a sink each namespace goes to the index of its own name, in lower case and with - for letters "
        "that no index may have; namespaces that become the same name share an index.",
        source="a sliced scroll in the order of changes (_seq_no), resumed behind the last one; changes are not followed. Indices whose "
        "name begins with a dot are left out.",
        sink="bulk requests, durable before they count (the translog is synced). The document's id is the message's, as text: 5 and "
        '"5" are the same document. A message without an id gets one made of the pipeline and its offset. Dates, decimals, binary data and '
        "ids are written as plain JSON. Each document's version (external_gte) is made of the message's offset, so that a late duplicate "
        "never overwrites what is newer; a log made anew counts as newer than the one before (the index's mapping lists them under _meta). "
        "versions=False leaves that out. The hidden index .headwater-owners says which log's run writes to a sink's `index`; a run of "
        "another log is refused. The user needs get, index, create_index and indices:admin/mappings/get on it, too.",
        sample='opensearch("${SEARCH_URI}", index="shop-{namespace}")',
    )

    extra: ClassVar[str] = "opensearch"
    stores: ClassVar[tuple[str, ...]] = ("opensearch",)
    source_class: ClassVar[str] = "headwater.adaptors.opensearch.source:OpenSearchSource"
    sink_class: ClassVar[str] = "headwater.adaptors.opensearch.sink:OpenSearchSink"

    uri: Annotated[str | Env, Means("`http(s)://[user:password@]host:port`, several with commas between.")]
    index: Annotated[str, Means("The sink's index; `{namespace}` in it is replaced.")] = "{namespace}"
    versions: Annotated[bool, Means("Documents carry versions, so that a late duplicate never overwrites what is newer.")] = True
    batch: Annotated[int, Means("Documents read at once.", 1, 10_000)] = 1000
    body: Annotated[Size, Means("Bytes sent at once.", 1 << 10, 100 << 20)] = Size(8 << 20)
    keep: Annotated[Duration, Means("The keep-alive of a scroll between two reads.", 1000, DAY)] = Duration(300_000)
    decimals: DecimalsOption = "decimal"
    ca: Annotated[str | None, Means("A file with the authority's certificate.", path=True)] = None

    def checked(self) -> Self:
        hint = 'Give the name of an index, such as "orders" or "shop-{namespace}".'
        if not self.index.replace("{namespace}", "x").strip("-_+. "):
            raise BadConfig(f"index cannot be {self.index!r}.", hint=hint)
        if wrong := sorted(set(self.index.replace("{namespace}", "")) & (FORBIDDEN | set("{}"))):
            raise BadConfig(f"index cannot be {self.index!r}: no index has {' '.join(wrong)} in its name.", hint=hint)
        return self

    def index_for(self, namespace: str) -> str:
        """The index of a namespace's documents. Errors: `BadInput` for a namespace that gives no valid name."""
        return index_name(self.index.replace("{namespace}", namespace))

    def connect(self) -> SearchClient:
        from headwater.adaptors.opensearch.client import SearchClient

        resolved = self.resolved()
        return SearchClient(str(resolved.uri), ca=resolved.ca, given=self.uri)


def index_name(wanted: str) -> str:
    """The nearest valid name of an index. Errors: `BadInput`."""
    name = "".join("-" if letter in FORBIDDEN or ord(letter) < 32 else letter for letter in wanted.lower()).lstrip("-_+.")
    if not name:
        raise BadInput(f"No index can be named {wanted!r}.", hint="Give the adaptor an index, or remap the namespace.")
    if len(name.encode()) > LONGEST_INDEX:
        raise BadInput(f"The name of the index {name[:60]}... is too long.", hint="Give the adaptor an index, or remap the namespace.")
    return name


opensearch = factory(OpenSearch)
elasticsearch = opensearch  # the same requests under the other name
