-- The tables of a store.

-- Each update gives an item a new id, larger than all before.
CREATE TABLE items (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace  TEXT COLLATE "C" NOT NULL,  -- a dot after each label, so that the namespaces under a prefix are a range
    key        TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ttl        BIGINT,        -- microseconds
    until      BIGINT,
    value      BYTEA NOT NULL,
    UNIQUE (namespace, key)
);
CREATE INDEX items_by_namespace ON items (namespace, until);
CREATE INDEX items_by_end ON items (until) WHERE until IS NOT NULL;

-- The vectors of the searchable parts of items, one after the other.
CREATE TABLE vectors (
    item  BIGINT PRIMARY KEY,
    dims  BIGINT NOT NULL,    -- the length of one vector
    parts BYTEA NOT NULL        -- float32, little endian
);
