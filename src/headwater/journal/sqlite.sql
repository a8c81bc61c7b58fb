-- What the copy of a partition is asked and told.

-- name: pointer
select topic, partition, offset, generation, epoch, created, updated from pointer2;

-- name: delete_pointer
delete from pointer2;

-- name: insert_pointer
insert into pointer2 (topic, partition, offset, generation, epoch, created, updated) values (?, ?, ?, ?, ?, ?, ?);

-- name: move_pointer
update pointer2 set offset = ?, epoch = ?, updated = ?;

-- name: head
select offset, segment_size, seq_nr, delete_to, created, updated, expire_after, expire_on, record_id, origin
from metajournal where id = ?;

-- name: stored_head
select id, key, offset, segment_size, seq_nr, delete_to, created, updated, expire_after, expire_on, record_id, origin
from metajournal where id = ?;

-- name: last_key
select coalesce(max(key), 0) from metajournal;

-- name: insert_head
insert into metajournal
    (key, id, offset, segment_size, seq_nr, delete_to, created, updated, expire_after, expire_on, record_id, origin)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_head
update metajournal set
    offset = ?2, segment_size = ?3, seq_nr = ?4, delete_to = ?5, created = ?6, updated = ?7, expire_after = ?8, expire_on = ?9,
    record_id = ?10, origin = ?11
where key = ?1;

-- name: delete_head
delete from metajournal where key = ?;

-- name: delete_heads
delete from metajournal;

-- name: ids
select id from metajournal where id > ? order by id limit ?;

-- name: first_ids
select id from metajournal order by id limit ?;

-- name: heads
select id, offset, segment_size, seq_nr, delete_to, created, updated, expire_after, expire_on, record_id, origin
from metajournal where id > ? order by id limit ?;

-- name: first_heads
select id, offset, segment_size, seq_nr, delete_to, created, updated, expire_after, expire_on, record_id, origin
from metajournal order by id limit ?;

-- name: insert_row
insert into journal (key, seq_nr, offset, timestamp, origin, version, tags, metadata, payload_type, payload, headers)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- The number of rows is written behind `limit`: given as a value, it would have SQLite plan the statement anew each time.
-- name: rows
select seq_nr, timestamp, offset, origin, version, tags, metadata, payload_type, payload, headers, rowid
from journal
where key = (select key from metajournal where id = ?) and seq_nr between ? and ?
order by seq_nr, offset, rowid limit;

-- name: next_rows
select seq_nr, timestamp, offset, origin, version, tags, metadata, payload_type, payload, headers, rowid
from journal
where key = (select key from metajournal where id = ?) and seq_nr between ? and ? and (seq_nr, offset, rowid) > (?, ?, ?)
order by seq_nr, offset, rowid limit;

-- name: delete_rows
delete from journal where key = ? and seq_nr <= ?;

-- name: delete_all_rows
delete from journal;

-- name: setting
select value from setting where key = ?;

-- name: set_setting
insert into setting (key, value, timestamp) values (?, ?, ?)
on conflict (key) do update set value = excluded.value, timestamp = excluded.timestamp;

-- name: delete_setting
delete from setting where key = ?;
