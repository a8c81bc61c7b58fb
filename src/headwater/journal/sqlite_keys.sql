-- What the key store of journals is asked and told.

-- name: keys
select id, key_id, cipher, state, master, wrapped, created, who, why from entity_key where topic = ? and id = ? order by created, key_id;

-- name: retired
select id, key_id, cipher, state, master, wrapped, created, who, why from entity_key where topic = ? and state = 'retired' order by id, key_id;

-- name: page
select id, key_id, cipher, state, master, wrapped, created, who, why from entity_key
where topic = ? and (id, key_id) > (?, ?) order by id, key_id limit ?;

-- name: add
insert into entity_key (topic, id, key_id, cipher, state, master, wrapped, created, who, why) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict do nothing;

-- name: retire
update entity_key set state = 'retired', who = ?, why = ? where topic = ? and id = ? and state = 'active';

-- name: destroy
insert into entity_key (topic, id, key_id, cipher, state, master, wrapped, created, who, why) values (?, ?, ?, ?, 'destroyed', '', x'', ?, ?, ?)
on conflict do update set state = 'destroyed', master = '', wrapped = x'' where state != 'destroyed';

-- name: rewrap
update entity_key set master = ?, wrapped = ?
where topic = ? and id = ? and key_id = ? and state != 'destroyed' and master = ? and wrapped = ? returning 1;

-- name: note
select note from key_note where topic = ?;

-- name: set_note
insert into key_note (topic, note) values (?, ?) on conflict do update set note = excluded.note;

-- name: first_note
insert into key_note (topic, note) values (?, ?) on conflict do nothing;
