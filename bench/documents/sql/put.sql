insert into document (id, body) values (?, ?) on conflict (id) do update set body = excluded.body
