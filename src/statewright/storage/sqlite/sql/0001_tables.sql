-- The tables of format 1. Later formats change them: see the scripts that follow by number.

CREATE TABLE threads (
    id      INTEGER PRIMARY KEY,
    name    TEXT NOT NULL UNIQUE,
    epoch   INTEGER NOT NULL DEFAULT 0,
    owner   TEXT,            -- the run that holds the thread; NULL if there is none
    until   INTEGER,         -- the end of its lease, in microseconds since 1970
    wanted  TEXT,            -- the request of another run to the owner
    changed INTEGER NOT NULL -- the time of the last claim or release
);

-- A line has one head: it is a branch of a namespace of a thread.
CREATE TABLE lines (
    id        INTEGER PRIMARY KEY,
    thread    INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    branch    TEXT NOT NULL,
    UNIQUE (thread, namespace, branch)
);

CREATE TABLE runs (
    id     INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL,
    name   TEXT NOT NULL,
    UNIQUE (thread, name)
);

-- The newest checkpoints of each line, one row each. A place is the line << 32 | the number of the checkpoint in it.
CREATE TABLE records (
    place   INTEGER PRIMARY KEY,
    id      BLOB NOT NULL,    -- 16 bytes
    run     INTEGER NOT NULL,
    number  INTEGER,          -- the number of its first event in the log of the run
    control BLOB NOT NULL,    -- everything except the state
    changes BLOB,             -- the changes of the state since the parent
    events  BLOB              -- its events in the log of the run
);

-- Older checkpoints, many in a row. The place is that of the last one.
CREATE TABLE segments (
    place    INTEGER PRIMARY KEY,
    first    INTEGER NOT NULL, -- the number of the first one
    ids      BLOB NOT NULL,    -- 16 bytes each
    apart    BLOB,             -- the growing fields at its end
    base     BLOB,             -- the state before the first one without growing fields; not in every row
    changes  BLOB,             -- for each checkpoint, the changes of fields that do not grow
    controls BLOB NOT NULL     -- for each checkpoint, its run and everything except the state
);

-- The gains of growing fields in a segment.
CREATE TABLE grown (
    line  INTEGER NOT NULL,
    field TEXT NOT NULL,
    last  INTEGER NOT NULL,    -- the number of the last checkpoint of the segment
    whole INTEGER NOT NULL,    -- 1 if the field was set in it, so that earlier gains are not needed
    items INTEGER NOT NULL,    -- the number of gained items
    body  BLOB NOT NULL,
    PRIMARY KEY (line, field, last)
) WITHOUT ROWID;

-- Forks: checkpoints whose parent is not the previous one in their line.
CREATE TABLE jumps (
    place  INTEGER PRIMARY KEY,
    parent INTEGER            -- NULL if there is none
);

-- Results that were saved for the tasks of the frontier of a checkpoint, before the next commit.
CREATE TABLE pending (
    place INTEGER NOT NULL,
    kind  INTEGER NOT NULL,
    key   TEXT NOT NULL,
    body  BLOB NOT NULL,
    PRIMARY KEY (place, kind, key)
) WITHOUT ROWID;

-- The logs of runs, except the events in records. A place is the run << 32 | the number of the first event in the row.
CREATE TABLE events (
    place INTEGER PRIMARY KEY,
    body  BLOB NOT NULL
);
