UPDATE {table}
SET status = 'P', lease_until = now() + interval '1 hour'
WHERE id = ANY (ARRAY (
    SELECT id FROM {table}
    WHERE status = 'W' AND process_date <= now()
    ORDER BY priority, process_date, id
    LIMIT %(n)s
    FOR UPDATE SKIP LOCKED
))
RETURNING id, key, data
