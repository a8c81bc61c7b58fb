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

-- name: moved
select fold from moved where id = ?;

-- name: all_moved
select id, fold from moved order by id;

-- name: set_moved
insert into moved (id, fold) values (?, ?) on conflict (id) do update set fold = excluded.fold;

-- name: delete_all_moved
delete from moved;

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

-- name: head_totals
select count(*), coalesce(sum(expire_on <= ?), 0) from metajournal;

-- name: deleted_numbers
select delete_to from metajournal where delete_to > 0;

-- name: row_totals
select count(*), coalesce(sum(length(payload)), 0) from journal;

-- name: number_totals
select coalesce(sum(rows - 1), 0), coalesce(sum(seq_nr - 1 > previous), 0)
from (
    select rows, seq_nr, lag(seq_nr) over (partition by key order by seq_nr) as previous
    from (select key, seq_nr, count(*) as rows from journal group by key, seq_nr)
);

-- name: forks
select metajournal.id, forked.seq_nr, journal.offset
from (select key, seq_nr from journal group by key, seq_nr having count(*) > 1) as forked
join metajournal on metajournal.key = forked.key
join journal on journal.key = forked.key and journal.seq_nr = forked.seq_nr
order by metajournal.id, forked.seq_nr, journal.offset;

-- name: insert_row
insert into journal (key, seq_nr, offset, timestamp, origin, version, tags, metadata, payload_type, payload, headers)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- The number of rows is written behind `limit`: given as a value, it would have SQLite plan the statement anew each time.
-- name: rows
select seq_nr, timestamp, offset, origin, version, tags, metadata, payload_type, payload, headers, rowid
from journal
where key = (select key from metajournal where id = ?) and seq_nr between ? and ?
order by seq_nr, offset, rowid limit;

-- The rows of a journal with fewer than ?7 numbers, where the pointer is at an offset, all of one moment without a transaction. Subqueries,
-- because SQLite plans a join anew for each call, which takes longer than the whole read. The limit is written behind it, as above.
-- name: short_read
select seq_nr, timestamp, offset, origin, version, tags, metadata, payload_type, payload, headers
from journal
where
    key = (
        select key from metajournal
        where
            id = ?1 and min(?3, max(seq_nr, ?6)) - max(?2, coalesce(delete_to, 0)) < ?7
            and (select offset = ?4 and generation = ?5 from pointer2)
    )
    and seq_nr between (select max(?2, coalesce(delete_to, 0) + 1) from metajournal where id = ?1)
    and (select min(?3, max(seq_nr, ?6)) from metajournal where id = ?1)
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

-- name: snapshot_pointer
select topic, partition, offset, generation, created, updated from snapshot_pointer;

-- name: delete_snapshot_pointer
delete from snapshot_pointer;

-- name: insert_snapshot_pointer
insert into snapshot_pointer (topic, partition, offset, generation, created, updated) values (?, ?, ?, ?, ?, ?);

-- name: move_snapshot_pointer
update snapshot_pointer set offset = ?, updated = ?;

-- name: ring
select buffer_idx, seq_nr, timestamp, offset, journal_offset, payload_type, record_id, origin, version from snapshot where id = ?;

-- name: snapshot_payload
select payload_type, payload from snapshot where id = ? and buffer_idx = ?;

-- name: put_snapshot
insert or replace into snapshot
    (id, buffer_idx, seq_nr, timestamp, offset, journal_offset, payload_type, payload, record_id, origin, version)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: delete_snapshot
delete from snapshot where id = ? and buffer_idx = ?;

-- name: purge_snapshots
delete from snapshot where id = ? and journal_offset <= ?;

-- name: delete_all_snapshots
delete from snapshot;

-- name: snapshot_ids
select distinct id from snapshot where id > ? order by id limit ?;

-- name: first_snapshot_ids
select distinct id from snapshot order by id limit ?;
