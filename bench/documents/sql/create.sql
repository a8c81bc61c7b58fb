create table document (id text primary key, body blob not null) without rowid
