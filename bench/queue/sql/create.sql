CREATE TABLE {table} (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key bytea NOT NULL,
    data bytea NOT NULL,
    priority smallint NOT NULL DEFAULT 100,
    process_date timestamptz NOT NULL DEFAULT now(),
    status "char" NOT NULL DEFAULT 'W',
    lease_until timestamptz
) WITH (fillfactor = 50);
CREATE INDEX ON {table} (priority, process_date, id) WHERE status = 'W';
