"""The cases of documents, for every engine of the log and of the store."""

from __future__ import annotations

from headwater.testing.document_cases_changes import DocumentChangeCases
from headwater.testing.document_cases_more import DocumentMoreCases
from headwater.testing.document_cases_queries import DocumentQueryCases
from headwater.testing.document_cases_verbs import DocumentVerbCases


class DocumentCases(DocumentVerbCases, DocumentQueryCases, DocumentChangeCases, DocumentMoreCases):
    """All of them."""
