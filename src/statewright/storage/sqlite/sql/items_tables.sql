-- What a database holds that keeps a store: made when the first is opened.

-- Each time an item is put it gets a number, larger than all before: the last updated is the largest.
CREATE TABLE IF NOT EXISTS items (
    id         INTEGER PRIMARY KEY,
    namespace  TEXT NOT NULL,  -- a dot after each label, so that what is under a prefix is a range
    key        TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ttl        INTEGER,        -- microseconds
    until      INTEGER,
    value      BLOB NOT NULL,
    UNIQUE (namespace, key)
);
CREATE INDEX IF NOT EXISTS items_by_namespace ON items (namespace, until);
CREATE INDEX IF NOT EXISTS items_by_end ON items (until) WHERE until IS NOT NULL;

-- What items mean: the vectors of their parts, one after the other.
CREATE TABLE IF NOT EXISTS vectors (
    item  INTEGER PRIMARY KEY,
    dims  INTEGER NOT NULL,    -- the length of one vector
    parts BLOB NOT NULL        -- float32, little endian
);
