insert into journal (key, seq_nr, offset, timestamp, origin, version, tags, metadata, payload_type, payload, headers)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
