create table index_content (
    document integer not null,
    life integer not null,
    number integer not null,
    key blob not null,
    item text not null,
    primary key (document, life, number, key)
) without rowid
