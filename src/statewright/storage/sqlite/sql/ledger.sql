-- Statements of ledger/, each after its name.

-- number
SELECT number FROM workflow_runs
WHERE id = ?;

-- events
SELECT place, at, body FROM run_events
WHERE place BETWEEN ? AND ?
ORDER BY place;

-- values_of_list
-- The values of a list in JSON.
SELECT value FROM json_each(?);

-- insert_events
INSERT INTO run_events (place, at, body)
SELECT number << 32 | last_event, ?, ? FROM workflow_runs
WHERE id = ?;

-- delete_events
-- A query of the numbers of the runs is inserted.
DELETE FROM run_events
WHERE place IN (
    SELECT place FROM (:runs) AS selected
    JOIN run_events ON place BETWEEN run << 32 AND (run << 32) + 0xFFFFFFFF
);

-- subscribers
-- The end of a query of the webhooks of a workspace that subscribe to a type of event.
FROM webhooks
WHERE workspace_id = ? AND active AND (
    coalesce(events, '[]') = '[]'
    OR EXISTS (SELECT 1 FROM json_each(events) WHERE value = ?)
);

-- insert_input
INSERT INTO run_inputs (run, body)
VALUES (?, ?);

-- delete_input
DELETE FROM run_inputs
WHERE run = ?;

-- due
-- Due runs after a position in their order, except those of some workspaces.
SELECT due_at, id, number, status = 'pending', workspace_id, thread_id, queue, concurrency_key, concurrency_limit
FROM workflow_runs
WHERE claim IS NULL AND due_at <= ? AND (due_at, id) > (?, ?)
    AND workspace_id NOT IN (SELECT value FROM json_each(?))
ORDER BY due_at, id LIMIT ?;

-- ahead_on_thread
-- A run that has not ended and holds the thread, or precedes another one in its queue: claimed runs come first, then
-- begun ones, then the others as they were written.
SELECT 1 FROM workflow_runs
WHERE workspace_id = ? AND thread_id = ? AND status IN ('pending', 'running', 'waiting', 'paused')
    AND (claim IS NULL, status = 'pending', number) < (1, ?, ?)
LIMIT 1;

-- ahead_in_queue
SELECT 1 FROM workflow_runs
WHERE workspace_id = ? AND queue = ? AND status IN ('pending', 'running', 'waiting', 'paused')
    AND (claim IS NULL, status = 'pending', number) < (1, ?, ?)
LIMIT 1;

-- limits
SELECT id, max_running FROM workspaces
WHERE max_running IS NOT NULL;

-- at_work
SELECT count(*) FROM workflow_runs
WHERE workspace_id = ? AND claim IS NOT NULL;

-- at_work_with_key
SELECT count(*) FROM workflow_runs
WHERE workspace_id = ? AND concurrency_key = ? AND claim IS NOT NULL;

-- take
UPDATE workflow_runs SET claim = ?, worker_id = ?, due_at = NULL, version = version + 1
WHERE number = ? AND claim IS NULL AND due_at IS NOT NULL;
