"""Keys of rows that parts of headwater keep in a queue for themselves, beside the rows of its users."""

from __future__ import annotations

NOTES = b"headwater:"
"""How the keys of such rows begin. Their data need not be as the queue declares."""
