-- A materialized index holds copies of its items. Where it was made before, it gets them here.
alter table index_content add column body blob;

update index_content set body = (
    select body from content
    where content.document = index_content.document and content.life = index_content.life and content.item = index_content.item
)
where document in (select document from index_def where json_extract(definition, '$.materialize'))
    and exists (
        select 1 from index_def
        where index_def.document = index_content.document and index_def.number = index_content.number
            and json_extract(index_def.definition, '$.materialize')
    );
