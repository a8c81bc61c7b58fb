-- The copy of one partition of one topic.

-- One row: how far the copy goes. It names its topic and partition, so that a file that was moved, or that a file system without capital
-- letters shares between two topics, is not read as another's.
create table pointer2 (
    topic text not null,
    partition integer not null,
    offset integer not null,
    generation text not null,
    epoch integer not null,
    created integer not null,
    updated integer not null
);

-- Heads. `key` stands for the id in the table journal: an id of 36 characters twice a row would cost a third of the speed.
create table metajournal (
    key integer primary key,
    id text not null,
    offset integer not null,
    segment_size integer not null,
    seq_nr integer not null,
    delete_to integer,
    created integer not null,
    updated integer not null,
    expire_after integer,
    expire_on text,
    record_id blob,
    origin text
);

create unique index metajournal_id on metajournal (id);

-- Events, in the order of the log. Two rows of one number are a fork, and both stay. `tags` and `headers` are JSON, or null for none.
create table journal (
    key integer not null,
    seq_nr integer not null,
    offset integer not null,
    timestamp integer not null,
    origin text,
    version text,
    tags text,
    metadata text not null,
    payload_type integer,
    payload blob,
    headers text
);

-- Not unique: an Append of another writer may hold one number twice. The pointer, set in the same transaction, keeps a row from coming twice.
create index journal_seq_nr on journal (key, seq_nr, offset);
