select seq_nr, timestamp, offset, origin, version, tags, metadata, payload_type, payload, headers
from journal
where key = (select key from metajournal where id = ?)
order by seq_nr
