"""Rows in Cassandra."""
