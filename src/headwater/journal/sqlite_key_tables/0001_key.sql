create table entity_key (
    topic text not null,
    id text not null,
    key_id blob not null,
    cipher integer not null,
    state text not null,
    master text not null,
    wrapped blob not null,
    created integer not null,
    who text not null,
    why text not null,
    primary key (topic, id, key_id)
) without rowid;

create index retired_key on entity_key (topic) where state = 'retired';

create table key_note (
    topic text primary key,
    note text not null
) without rowid;
