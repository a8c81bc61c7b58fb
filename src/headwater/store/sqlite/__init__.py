"""Rows in SQLite files, by the apsw library alone: two libraries that have one file open drop each other's locks."""
