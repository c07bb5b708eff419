-- Statements of sqlite/migrate.py, each after its name.

-- has_runs
SELECT 1 FROM sqlite_schema
WHERE type = 'table' AND name = 'workflow_runs';

-- shared
SELECT name, group_concat(DISTINCT workspace_id) FROM threads
JOIN workflow_runs ON workflow_runs.thread_id = name
GROUP BY name HAVING count(DISTINCT workspace_id) > 1;

-- copy_to_default
INSERT INTO threads_of_workspaces (id, workspace, thread_id, epoch, owner, until, wanted, changed)
SELECT threads.id, ?, name, epoch, owner, until, wanted, changed FROM threads;

-- copy_to_workspaces_of_runs
INSERT INTO threads_of_workspaces (id, workspace, thread_id, epoch, owner, until, wanted, changed)
SELECT threads.id,
    ifnull((SELECT workspace_id FROM workflow_runs WHERE workflow_runs.thread_id = name
        ORDER BY created_at, workflow_runs.id LIMIT 1), ?),
    name, epoch, owner, until, wanted, changed
FROM threads;

-- drop_index
DROP INDEX IF EXISTS runs_by_thread;

-- create_index
-- For searches by thread, which now begin with the workspace.
CREATE INDEX runs_by_thread ON workflow_runs (workspace_id, thread_id, status);

-- drop_threads
DROP TABLE threads;

-- rename
ALTER TABLE threads_of_workspaces RENAME TO threads;

-- workspace
SELECT workspace FROM threads
WHERE thread_id = ?;
