-- The tables of threads. Times are microseconds since 1970. Names are sorted by their bytes.

CREATE TABLE threads (
    id        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace TEXT COLLATE "C" NOT NULL,
    thread_id TEXT COLLATE "C" NOT NULL,
    epoch     BIGINT NOT NULL DEFAULT 0,
    owner     TEXT COLLATE "C",  -- the run that holds the thread; NULL if there is none
    until     BIGINT,            -- the end of its lease
    wanted    TEXT COLLATE "C",  -- the request of another run to the owner
    changed   BIGINT NOT NULL,   -- the time of the last claim or release
    UNIQUE (workspace, thread_id)
) WITH (fillfactor = 50);

-- A line is a branch of a namespace of a thread. Its row has the head, which each commit replaces.
CREATE TABLE lines (
    id        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    thread    BIGINT NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    branch    TEXT COLLATE "C" NOT NULL,
    head      BIGINT,            -- the number of its newest checkpoint
    head_id   BYTEA,             -- its id, 16 bytes
    records   BIGINT NOT NULL DEFAULT 0,  -- the number of rows in `records`, or more
    size      BIGINT NOT NULL DEFAULT 0,  -- their size in bytes, or more
    pending   BOOLEAN NOT NULL DEFAULT FALSE,  -- TRUE if results were saved for the frontier of the head
    UNIQUE (thread, namespace, branch)
) WITH (fillfactor = 50);

CREATE TABLE runs (
    id     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    thread BIGINT NOT NULL,
    name   TEXT COLLATE "C" NOT NULL,
    next   BIGINT NOT NULL DEFAULT 1,  -- the number of the next event in its log
    UNIQUE (thread, name)
) WITH (fillfactor = 70);

-- The newest checkpoints of each line, one row each. A place is the line << 28 | the number of the checkpoint in it.
CREATE TABLE records (
    place   BIGINT PRIMARY KEY,
    run     BIGINT NOT NULL,
    number  BIGINT,              -- the number of its first event in the log of the run
    id      BYTEA NOT NULL,      -- 16 bytes
    control BYTEA NOT NULL,      -- everything except the state
    changes BYTEA,               -- the changes of the state since the parent
    events  BYTEA                -- its events in the log of the run
) WITH (toast_tuple_target = 8160);
ALTER TABLE records
    ALTER COLUMN control SET STORAGE MAIN,
    ALTER COLUMN changes SET STORAGE MAIN,
    ALTER COLUMN events SET STORAGE MAIN;

-- Older checkpoints, many in a row. The place is that of the last one.
CREATE TABLE segments (
    place    BIGINT PRIMARY KEY,
    first    BIGINT NOT NULL,    -- the number of the first one
    ids      BYTEA NOT NULL,     -- 16 bytes each
    apart    BYTEA,              -- the growing fields at its end
    base     BYTEA,              -- the state before the first one without growing fields; not in every row
    changes  BYTEA,              -- for each checkpoint, the changes of fields that do not grow
    controls BYTEA NOT NULL      -- for each checkpoint, its run and everything except the state
);

-- The gains of growing fields in a segment.
CREATE TABLE grown (
    line  BIGINT NOT NULL,
    field TEXT COLLATE "C" NOT NULL,
    last  BIGINT NOT NULL,       -- the number of the last checkpoint of the segment
    whole BOOLEAN NOT NULL,      -- TRUE if the field was set in it, so that earlier gains are not needed
    items BIGINT NOT NULL,       -- the number of gained items
    body  BYTEA NOT NULL,
    PRIMARY KEY (line, field, last)
);

-- Forks: checkpoints whose parent is not the previous one in their line.
CREATE TABLE jumps (
    place  BIGINT PRIMARY KEY,
    parent BIGINT                -- NULL if there is none
);
CREATE INDEX jumps_by_parent ON jumps (parent);

-- Results that were saved for the tasks of the frontier of a checkpoint, before the next commit.
CREATE TABLE pending (
    place BIGINT NOT NULL,
    kind  BIGINT NOT NULL,
    key   TEXT COLLATE "C" NOT NULL,
    body  BYTEA NOT NULL,
    PRIMARY KEY (place, kind, key)
);

-- The logs of runs, except the events in records. A place is the run << 28 | the number of the first event in the row.
CREATE TABLE events (
    place BIGINT PRIMARY KEY,
    body  BYTEA NOT NULL
);
