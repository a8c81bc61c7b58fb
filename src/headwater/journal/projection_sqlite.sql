-- name: projection
CREATE TABLE IF NOT EXISTS headwater_projection (
    name TEXT NOT NULL,
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    generation TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    place TEXT NOT NULL,
    decision INTEGER NOT NULL,
    last TEXT NOT NULL,
    PRIMARY KEY (name, topic, partition)
);
-- name: dead
CREATE TABLE IF NOT EXISTS headwater_projection_dead (
    name TEXT NOT NULL,
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    record_offset INTEGER NOT NULL,
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    error TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    waits INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (name, topic, partition, record_offset, number)
);
-- name: add
INSERT INTO headwater_projection (name, topic, partition, generation, epoch, place, decision, last)
VALUES (?, ?, ?, ?, 0, '', -1, '') ON CONFLICT DO NOTHING;
-- name: take
UPDATE headwater_projection SET epoch = epoch + 1 WHERE name = ? AND topic = ? AND partition = ?
RETURNING epoch, generation, place, decision, last;
-- name: owned
SELECT 1 FROM headwater_projection WHERE name = ? AND topic = ? AND partition = ? AND epoch = ?;
-- name: keep
UPDATE headwater_projection SET generation = ?, place = ?, decision = ?, last = ?
WHERE name = ? AND topic = ? AND partition = ? AND epoch = ?
RETURNING 1;
-- name: restart
UPDATE headwater_projection SET epoch = epoch + 1, generation = ?, place = '', decision = ?, last = '' WHERE name = ? AND topic = ?;
-- name: dead_events
SELECT record_offset, number, id, error, attempts, waits, at FROM headwater_projection_dead
WHERE name = ? AND topic = ? AND partition = ? ORDER BY record_offset, number;
-- name: park
INSERT INTO headwater_projection_dead (name, topic, partition, record_offset, number, id, error, attempts, waits, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name, topic, partition, record_offset, number)
DO UPDATE SET error = excluded.error, attempts = excluded.attempts, waits = excluded.waits, at = excluded.at;
-- name: settle
DELETE FROM headwater_projection_dead WHERE name = ? AND topic = ? AND partition = ? AND record_offset = ? AND number = ?;
-- name: settle_all
DELETE FROM headwater_projection_dead WHERE name = ? AND topic = ?;
