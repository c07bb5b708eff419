-- The tables of a cache, created when the first one is opened.

CREATE TABLE IF NOT EXISTS cache (
    node  TEXT NOT NULL,
    input TEXT NOT NULL,
    value BLOB NOT NULL,
    until INTEGER,
    PRIMARY KEY (node, input)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS cache_by_end ON cache (until) WHERE until IS NOT NULL;
