"""Indexes of collections: their keys, how they are built, and which one serves a query."""
