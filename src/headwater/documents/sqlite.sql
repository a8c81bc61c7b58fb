-- What the fold of a partition of documents is asked and told. Numbers of rows are written behind `limit`: given as values, they would have
-- SQLite plan the statement anew each time. So would a value that a join compares with a column, unless it has a plus before it.

-- name: checkpoint
select partition, generation, applied from checkpoint;

-- name: delete_checkpoint
delete from checkpoint;

-- name: insert_checkpoint
insert into checkpoint (partition, generation, applied) values (?, ?, ?);

-- name: move_checkpoint
update checkpoint set applied = ?;

-- name: head
select revision, generation, deleted, created, modified, last_id, settings from document where uri = ?;

-- name: place
select id, life, deleted from document where uri = ?;

-- name: stored_head
select revision, generation, deleted, created, modified, last_id, settings, life, offset, id from document where uri = ?;

-- name: heads
select uri, revision, generation, deleted, created, modified, last_id, settings from document
where uri > ? and uri >= ? and uri < ? order by uri limit;

-- name: insert_head
insert into document (id, uri, revision, generation, deleted, created, modified, last_id, settings, life, offset)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: last_number
select coalesce(max(id), 0) from document;

-- name: update_head
update document set
    revision = ?2, generation = ?3, deleted = ?4, created = ?5, modified = ?6, last_id = ?7, settings = ?8, life = ?9, offset = ?10
where id = ?1;

-- name: row
select item, body, content.revision, content.created, content.modified, expires
from document join content on content.document = document.id and content.life = document.life
where uri = +? and item = +? and not deleted;

-- One statement sees one moment: without a transaction around it, it takes a third of the time.
-- name: point
select partition, checkpoint.generation, applied, document.revision, item, body, content.revision, content.created, content.modified, expires
from checkpoint left join document on uri = +?1
left join content on content.document = document.id and content.life = document.life and item = +?2 and not deleted;

-- name: rows
select item, body, revision, created, modified, expires from content
where document = ? and life = ? and item >= ? order by item limit;

-- name: rows_below
select item, body, revision, created, modified, expires from content
where document = ? and life = ? and item >= ? and item < ? order by item limit;

-- name: last_rows
select item, body, revision, created, modified, expires from content
where document = ? and life = ? and item >= ? order by item desc limit;

-- name: last_rows_below
select item, body, revision, created, modified, expires from content
where document = ? and life = ? and item >= ? and item < ? order by item desc limit;

-- The index holds all that this reads.
-- name: count
select count(*) from content where document = ? and life = ?;

-- A number of rows stands behind it.
-- name: cut
select item from content where document = ? and life = ? and item > ? order by item limit 1 offset;

-- name: item
select item, body, revision, created, modified, expires from content where document = ? and life = ? and item = ?;

-- The time of creation stays where the row was there before (?9).
-- name: put_row
insert into content (document, life, item, revision, created, modified, expires, body) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
on conflict (document, life, item) do update set
    revision = excluded.revision, created = case when ?9 then created else excluded.created end, modified = excluded.modified,
    expires = excluded.expires, body = excluded.body;

-- name: delete_row
delete from content where document = ? and life = ? and item = ?;

-- name: expiring
select uri, item from content join document on document.id = content.document and document.life = content.life
where expires > 0 and expires < ? and not deleted order by expires, uri, item limit;

-- name: indexes
select definition, since, complete from index_def where document = ? order by number;

-- name: put_index
insert into index_def (document, number, definition, since, complete) values (?, ?, ?, ?, ?)
on conflict (document, number) do update set definition = excluded.definition, complete = excluded.complete;

-- name: delete_index
delete from index_def where document = ? and number = ?;

-- name: index
select since, upto, definition from index_def where document = ? and number = ?;

-- name: extend_index
update index_def set upto = ? where document = ? and number = ?;

-- name: complete_index
update index_def set complete = 1 where document = ? and number = ?;

-- name: index_rows
select key, item from index_content where document = ? and life = ? and number = ? and key >= ? order by key limit;

-- name: index_copies
select key, item, coalesce(body, x'') from index_content where document = ? and life = ? and number = ? and key >= ? order by key limit;

-- name: index_rows_below
select key, item from index_content where document = ? and life = ? and number = ? and key >= ? and key < ? order by key limit;

-- name: index_copies_below
select key, item, coalesce(body, x'') from index_content where document = ? and life = ? and number = ? and key >= ? and key < ? order by key limit;

-- name: last_index_rows
select key, item from index_content where document = ? and life = ? and number = ? and key >= ? order by key desc limit;

-- name: last_index_copies
select key, item, coalesce(body, x'') from index_content where document = ? and life = ? and number = ? and key >= ? order by key desc limit;

-- name: last_index_rows_below
select key, item from index_content where document = ? and life = ? and number = ? and key >= ? and key < ? order by key desc limit;

-- name: last_index_copies_below
select key, item, coalesce(body, x'') from index_content where document = ? and life = ? and number = ? and key >= ? and key < ? order by key desc limit;

-- name: put_index_row
insert into index_content (document, life, number, key, item) values (?, ?, ?, ?, ?) on conflict do nothing;

-- A row that keeps its key gets the newer body.
-- name: put_index_copy
insert into index_content (document, life, number, key, item, body) values (?, ?, ?, ?, ?, ?)
on conflict do update set body = excluded.body;

-- An item that has changed since the index came has its row already: the one that was asked for may be of its state before.
-- name: add_index_row
insert into index_content (document, life, number, key, item)
select document, life, ?3, ?4, item from content where document = ?1 and life = ?2 and item = ?5 and revision <= ?6
on conflict do nothing;

-- name: add_index_copy
insert into index_content (document, life, number, key, item, body)
select document, life, ?3, ?4, item, body from content where document = ?1 and life = ?2 and item = ?5 and revision <= ?6
on conflict do nothing;

-- name: delete_index_row
delete from index_content where document = ? and life = ? and number = ? and key = ?;

-- name: delete_index_rows
delete from index_content where document = ? and number = ? and life = ?;

-- name: unindexed
select item, body from content where document = ? and life = ? and item > ? and revision <= ? order by item limit;

-- name: changes
select revision, offset, time from change
where document = (select id from document where uri = ?) and revision > ? order by revision limit;

-- name: last_changes
select revision, offset, time from change
where document = (select id from document where uri = ?) and revision < ? order by revision desc limit;

-- name: put_change
insert into change (document, revision, offset, time) values (?, ?, ?, ?) on conflict do nothing;

-- name: end_life
insert into ended_life (document, life) values (?, ?) on conflict do nothing;

-- name: ended_life
select document, life from ended_life limit 1;

-- name: delete_ended_life
delete from ended_life where document = ? and life = ?;

-- name: purge_rows
delete from content where rowid in (select rowid from content where document = ?1 and life = ?2 limit ?3);

-- name: purge_index_rows
delete from index_content where (document, life, number, key) in
    (select document, life, number, key from index_content where document = ?1 and life = ?2 limit ?3);

-- name: remove_index_rows
delete from index_content where (document, life, number, key) in
    (select document, life, number, key from index_content where document = ?1 and life = ?2 and number = ?3 limit ?4);

-- name: delete_heads
delete from document;

-- name: delete_all_rows
delete from content;

-- name: delete_indexes
delete from index_def;

-- name: delete_all_index_rows
delete from index_content;

-- name: delete_changes
delete from change;

-- name: delete_ended_lives
delete from ended_life;
