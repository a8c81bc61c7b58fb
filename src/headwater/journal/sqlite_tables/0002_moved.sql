-- Journals of a topic that grew whose older records lie in another partition: what all records of this one say of them, as JSON. A Purge
-- or a Delete here also concerns events that lie there.
create table moved (
    id text primary key,
    fold text not null
) without rowid;
