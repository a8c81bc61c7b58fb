"""Schemas of collections: what their items must look like."""
