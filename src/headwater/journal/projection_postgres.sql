-- name: lock_schema
-- Two processes that create a table at once fail in PostgreSQL.
SELECT pg_advisory_xact_lock(7526751);
-- name: projection
CREATE TABLE IF NOT EXISTS headwater_projection (
    name TEXT NOT NULL,
    topic TEXT NOT NULL,
    partition BIGINT NOT NULL,
    generation TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    place TEXT NOT NULL,
    decision BIGINT NOT NULL,
    last TEXT NOT NULL,
    PRIMARY KEY (name, topic, partition)
);
-- name: dead
CREATE TABLE IF NOT EXISTS headwater_projection_dead (
    name TEXT NOT NULL,
    topic TEXT NOT NULL,
    partition BIGINT NOT NULL,
    record_offset BIGINT NOT NULL,
    number BIGINT NOT NULL,
    id TEXT NOT NULL,
    error TEXT NOT NULL,
    attempts BIGINT NOT NULL,
    waits BIGINT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (name, topic, partition, record_offset, number)
);
-- name: add
INSERT INTO headwater_projection (name, topic, partition, generation, epoch, place, decision, last)
VALUES (%s, %s, %s, %s, 0, '', -1, '') ON CONFLICT DO NOTHING;
-- name: take
UPDATE headwater_projection SET epoch = epoch + 1 WHERE name = %s AND topic = %s AND partition = %s
RETURNING epoch, generation, place, decision, last;
-- name: owned
SELECT 1 FROM headwater_projection WHERE name = %s AND topic = %s AND partition = %s AND epoch = %s;
-- name: keep
UPDATE headwater_projection SET generation = %s, place = %s, decision = %s, last = %s
WHERE name = %s AND topic = %s AND partition = %s AND epoch = %s
RETURNING 1;
-- name: restart
UPDATE headwater_projection SET epoch = epoch + 1, generation = %s, place = '', decision = %s, last = '' WHERE name = %s AND topic = %s;
-- name: dead_events
SELECT record_offset, number, id, error, attempts, waits, at FROM headwater_projection_dead
WHERE name = %s AND topic = %s AND partition = %s ORDER BY record_offset, number;
-- name: park
INSERT INTO headwater_projection_dead (name, topic, partition, record_offset, number, id, error, attempts, waits, at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (name, topic, partition, record_offset, number)
DO UPDATE SET error = excluded.error, attempts = excluded.attempts, waits = excluded.waits, at = excluded.at;
-- name: settle
DELETE FROM headwater_projection_dead WHERE name = %s AND topic = %s AND partition = %s AND record_offset = %s AND number = %s;
-- name: settle_all
DELETE FROM headwater_projection_dead WHERE name = %s AND topic = %s;
