-- The tables of a store, created when the first one is opened.

-- Each update gives an item a new id, larger than all before.
CREATE TABLE IF NOT EXISTS items (
    id         INTEGER PRIMARY KEY,
    namespace  TEXT NOT NULL,  -- a dot after each label, so that the namespaces under a prefix are a range
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

-- The vectors of the searchable parts of items, one after the other.
CREATE TABLE IF NOT EXISTS vectors (
    item  INTEGER PRIMARY KEY,
    dims  INTEGER NOT NULL,    -- the length of one vector
    parts BLOB NOT NULL        -- float32, little endian
);
