create table setting (
    key text primary key,
    value text not null,
    timestamp integer not null
) without rowid;
