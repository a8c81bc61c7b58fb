"""`headwater doc view`, beside what acceptance tests do with it."""

from __future__ import annotations

import shlex
from typing import Any

from headwater.cli import doc_indexes
from headwater.documents.view import ViewDefinition


def test_the_example_of_a_view_is_one() -> None:
    command: Any = doc_indexes.view
    words = shlex.split(command.listed.example)
    at = words.index("put")
    ViewDefinition(template_uri=words[at + 2], filter=words[words.index("--filter") + 1]).check(words[at + 1])
