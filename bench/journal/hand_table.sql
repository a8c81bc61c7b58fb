create table if not exists event (
    id text not null,
    seq_nr integer not null,
    offset integer not null,
    timestamp text not null,
    payload blob,
    primary key (id, seq_nr)
)
