-- The snapshots of the partition's journals: a ring of 10 slots for each, folded from the topic of snapshots.

-- One row: how far the topic of snapshots is copied.
create table snapshot_pointer (
    topic text not null,
    partition integer not null,
    offset integer not null,
    generation text not null,
    created integer not null,
    updated integer not null
);

-- `offset`: of the snapshot's record. `journal_offset`: the end of the journal's partition when it was saved; a Purge behind it takes it.
create table snapshot (
    id text not null,
    buffer_idx integer not null,
    seq_nr integer not null,
    timestamp integer not null,
    offset integer not null,
    journal_offset integer not null,
    payload_type integer not null,
    payload blob not null,
    record_id blob,
    origin text,
    version text,
    primary key (id, buffer_idx)
);
