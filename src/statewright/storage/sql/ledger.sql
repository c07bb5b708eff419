-- Statements of ledger/, each after its name.

-- number
SELECT number FROM workflow_runs
WHERE id = ?;

-- events
SELECT place, at, body FROM run_events
WHERE place BETWEEN ? AND ?
ORDER BY place;

-- insert_events
INSERT INTO run_events (place, at, body)
SELECT number << NUMBER_BITS | last_event, ?, ? FROM workflow_runs
WHERE id = ?;

-- delete_events
-- A query of the numbers of the runs is inserted.
DELETE FROM run_events
WHERE place IN (
    SELECT place FROM (:runs) AS selected
    JOIN run_events ON place BETWEEN run << NUMBER_BITS AND (run << NUMBER_BITS) + LAST_NUMBER
);

-- insert_input
INSERT INTO run_inputs (run, body)
VALUES (?, ?);

-- delete_input
DELETE FROM run_inputs
WHERE run = ?;

-- ahead_on_thread
-- A run that has not ended and holds the thread, or precedes another one in its queue: claimed runs come first, then
-- begun ones, then the others as they were written.
SELECT 1 FROM workflow_runs
WHERE workspace_id = ? AND thread_id = ? AND status IN ('pending', 'running', 'waiting', 'paused')
    AND (claim IS NULL, status = 'pending', number) < (TRUE, ?, ?)
LIMIT 1;

-- ahead_in_queue
SELECT 1 FROM workflow_runs
WHERE workspace_id = ? AND queue = ? AND status IN ('pending', 'running', 'waiting', 'paused')
    AND (claim IS NULL, status = 'pending', number) < (TRUE, ?, ?)
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
