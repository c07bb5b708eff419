-- What a database of format 1 holds. Later formats change it: see the scripts that follow by number.

CREATE TABLE threads (
    id      INTEGER PRIMARY KEY,
    name    TEXT NOT NULL UNIQUE,
    epoch   INTEGER NOT NULL DEFAULT 0,
    owner   TEXT,            -- the run that holds the thread; NULL if none does
    until   INTEGER,         -- when its lease ends, in microseconds since 1970
    wanted  TEXT,            -- what another run wants of the owner
    changed INTEGER NOT NULL -- when it was first held or last let go
);

-- What has one head: a branch of a namespace of a thread.
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

-- The newest checkpoints of each line, one row each. A place is the line << 32 | the checkpoint's number in it.
CREATE TABLE records (
    place   INTEGER PRIMARY KEY,
    id      BLOB NOT NULL,    -- 16 bytes
    run     INTEGER NOT NULL,
    number  INTEGER,          -- of the first of its events in the log of the run
    control BLOB NOT NULL,    -- everything but the state
    changes BLOB,             -- of the state, since the parent
    events  BLOB              -- what it adds to the log of the run
);

-- Older checkpoints, many to a row. The place is that of the last one.
CREATE TABLE segments (
    place    INTEGER PRIMARY KEY,
    first    INTEGER NOT NULL, -- the number of the first one
    ids      BLOB NOT NULL,    -- 16 bytes each
    apart    BLOB,             -- the fields that were found to grow, up to its end
    base     BLOB,             -- the state before the first one, but for fields that grow; not in every row
    changes  BLOB,             -- of fields that do not grow, for each checkpoint
    controls BLOB NOT NULL     -- for each checkpoint, its run and everything but the state
);

-- What fields that grow gained during a segment.
CREATE TABLE grown (
    line  INTEGER NOT NULL,
    field TEXT NOT NULL,
    last  INTEGER NOT NULL,    -- the number of the segment's last checkpoint
    whole INTEGER NOT NULL,    -- whether the field was set anew in it: what came before is not needed
    items INTEGER NOT NULL,    -- how many came
    body  BLOB NOT NULL,
    PRIMARY KEY (line, field, last)
) WITHOUT ROWID;

-- Checkpoints whose parent is not the one before in their line: forks.
CREATE TABLE jumps (
    place  INTEGER PRIMARY KEY,
    parent INTEGER            -- NULL if it has none
);

-- What is known of the tasks of a checkpoint's frontier before the next commit.
CREATE TABLE pending (
    place INTEGER NOT NULL,
    kind  INTEGER NOT NULL,
    key   TEXT NOT NULL,
    body  BLOB NOT NULL,
    PRIMARY KEY (place, kind, key)
) WITHOUT ROWID;

-- The logs of runs, but for what their newest records hold. A place is the run << 32 | the number of the first event
-- in the row.
CREATE TABLE events (
    place INTEGER PRIMARY KEY,
    body  BLOB NOT NULL
);
