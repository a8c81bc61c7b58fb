"""The cases of journals as tests, which any log and any store can be held to."""

from __future__ import annotations

from headwater.testing.journal_cases_basics import JournalBasicCases
from headwater.testing.journal_cases_cache import JournalCacheCases
from headwater.testing.journal_cases_decided import JournalDecidedCases
from headwater.testing.journal_cases_replicator import JournalReplicatorCases
from headwater.testing.journal_cases_store import JournalStoreCases


class JournalCases(JournalBasicCases, JournalCacheCases, JournalDecidedCases, JournalStoreCases, JournalReplicatorCases):
    """Subclass it, and give the fixtures `open_log` and `open_store`."""
