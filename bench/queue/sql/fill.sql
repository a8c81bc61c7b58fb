INSERT INTO {table} (key, data)
SELECT lpad(number::text, 16, '0')::bytea, %(data)s
FROM generate_series(1, %(count)s) AS number
