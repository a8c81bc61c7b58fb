-- The fold of one partition of documents.

-- One row: every record below `applied` counts. It names its partition and the generation of the topic, so that a file that was moved, or
-- that belongs to a topic that was deleted, is not read as another's.
create table checkpoint (
    partition integer not null,
    generation text not null,
    applied integer not null
);

-- Heads. `id` stands for the uri in the other tables: a uri in each row of an index would be most of the row.
create table document (
    id integer primary key,
    uri text not null,
    revision integer not null,
    generation integer not null,
    life integer not null,
    deleted integer not null,
    created integer not null,
    modified integer not null,
    last_id text not null,
    settings blob,
    offset integer not null
);

create unique index document_uri on document (uri);

-- Bodies of documents (`item` is empty) and items. Rows of another life than the document's are gone for readers, and purged in time.
create table content (
    document integer not null,
    life integer not null,
    item text not null,
    revision integer not null,
    created integer not null,
    modified integer not null,
    expires integer not null,
    body blob not null
);

create unique index content_item on content (document, life, item);

create index content_expires on content (expires) where expires > 0;

-- Indexes in every state. `definition` is JSON. `since`: the revision when the index came. Of the items of before it, those up to the id
-- `upto` have their rows; where it is `complete`, all.
create table index_def (
    document integer not null,
    number integer not null,
    definition text not null,
    since integer not null,
    complete integer not null,
    upto text not null default '',
    primary key (document, number)
) without rowid;

create table index_content (
    document integer not null,
    life integer not null,
    number integer not null,
    key blob not null,
    item text not null,
    primary key (document, life, number, key)
) without rowid;

-- Where the change of each revision lies in the log.
create table change (
    document integer not null,
    revision integer not null,
    offset integer not null,
    time integer not null,
    primary key (document, revision)
) without rowid;

-- Lives that ended and whose rows are not yet purged.
create table ended_life (
    document integer not null,
    life integer not null,
    primary key (document, life)
) without rowid;
