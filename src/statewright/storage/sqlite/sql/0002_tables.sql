-- The changes of format 2: a thread belongs to a workspace, and its id is unique there.
-- The column `name` has become `thread_id`. That stops programs of format 1 that still have the file open, which would
-- find threads of any workspace by name.

CREATE TABLE threads_of_workspaces (
    id        INTEGER PRIMARY KEY,
    workspace TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    epoch     INTEGER NOT NULL DEFAULT 0,
    owner     TEXT,            -- the run that holds the thread; NULL if there is none
    until     INTEGER,         -- the end of its lease, in microseconds since 1970
    wanted    TEXT,            -- the request of another run to the owner
    changed   INTEGER NOT NULL, -- the time of the last claim or release
    UNIQUE (workspace, thread_id)
);
