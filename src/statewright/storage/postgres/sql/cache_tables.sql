-- The tables of a cache.

CREATE TABLE cache (
    node  TEXT COLLATE "C" NOT NULL,
    input TEXT COLLATE "C" NOT NULL,
    value BYTEA NOT NULL,
    until BIGINT,
    PRIMARY KEY (node, input)
);
CREATE INDEX cache_by_end ON cache (until) WHERE until IS NOT NULL;
