-- What format 2 changes: a thread belongs to a workspace, and its id is unique there.
-- The column `name` has become `thread_id`. That stops programs of format 1 which still have the file open: they would
-- find threads by their names alone, whosever they are.

CREATE TABLE threads_of_workspaces (
    id        INTEGER PRIMARY KEY,
    workspace TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    epoch     INTEGER NOT NULL DEFAULT 0,
    owner     TEXT,            -- the run that holds the thread; NULL if none does
    until     INTEGER,         -- when its lease ends, in microseconds since 1970
    wanted    TEXT,            -- what another run wants of the owner
    changed   INTEGER NOT NULL, -- when it was first held or last let go
    UNIQUE (workspace, thread_id)
);
