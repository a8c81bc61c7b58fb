insert into event (id, seq_nr, offset, timestamp, payload) values (?, ?, ?, ?, ?)
