insert into index_content (document, life, number, key, item) values (?, ?, ?, ?, ?)
