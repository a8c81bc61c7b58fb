select key, seq_nr, offset, timestamp, origin, version, tags, metadata, payload_type, payload, headers from journal order by rowid
