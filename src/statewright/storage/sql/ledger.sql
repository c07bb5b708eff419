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

-- next_due_group
-- The next queue, version of a graph, priority, and whether they have begun, of unclaimed runs that nothing holds back:
-- one search of the index, however many runs a group has. Without the comparison of `due_at`, SQLite reads a whole group.
SELECT queue, graph_version, priority, begun FROM workflow_runs
WHERE due_at IS NOT NULL AND claim IS NULL AND held_by IS NULL
    AND (queue, graph_version, priority, begun, due_at) > (?, ?, ?, ?, 9223372036854775807)
ORDER BY queue, graph_version, priority, begun LIMIT 1;

-- due
-- The runs of a group that have been due longest.
SELECT due_at, id, number, status = 'pending', workspace_id, thread_id, sequence, concurrency_key, concurrency_limit
FROM workflow_runs
WHERE queue = ? AND graph_version = ? AND priority = ? AND begun = ? AND due_at <= ?
    AND due_at IS NOT NULL AND claim IS NULL AND held_by IS NULL
ORDER BY due_at, id LIMIT ?;

-- first_due
-- The earliest time at which a run of a group is due.
SELECT due_at FROM workflow_runs
WHERE queue = ? AND graph_version = ? AND priority = ? AND begun = ?
    AND due_at IS NOT NULL AND claim IS NULL AND held_by IS NULL
ORDER BY due_at LIMIT 1;

-- size_of_due_group
-- The number of due runs of a group, and since when they are due.
SELECT count(*), min(due_at) FROM workflow_runs
WHERE queue = ? AND graph_version = ? AND priority = ? AND begun = ? AND due_at <= ?
    AND due_at IS NOT NULL AND claim IS NULL AND held_by IS NULL;

-- queue_sizes
-- The queues of all unfinished runs but those of the groups: the number of due runs, since when they are due, and the
-- number of claimed runs. The queues of runs that only wait are found one by one, however many runs they have.
WITH RECURSIVE waiting (queue) AS (
    SELECT (
        SELECT queue FROM workflow_runs
        WHERE claim IS NULL AND due_at IS NULL AND status NOT IN ('completed', 'failed', 'cancelled')
        ORDER BY queue LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT queue FROM workflow_runs
        WHERE claim IS NULL AND due_at IS NULL AND status NOT IN ('completed', 'failed', 'cancelled')
            AND queue > waiting.queue
        ORDER BY queue LIMIT 1
    )
    FROM waiting WHERE waiting.queue IS NOT NULL
)
SELECT queue, sum(CASE WHEN due_at <= ? THEN 1 ELSE 0 END), min(CASE WHEN due_at <= ? THEN due_at END), 0
FROM workflow_runs WHERE held_by IS NOT NULL GROUP BY queue
UNION ALL
SELECT queue, 0, NULL, count(*) FROM workflow_runs WHERE claim IS NOT NULL GROUP BY queue
UNION ALL
SELECT queue, 0, NULL, 0 FROM waiting WHERE queue IS NOT NULL;

-- begun_on_thread
-- A run that holds a thread: it is claimed, or has begun and not ended. With several, a claimed one comes first, and
-- then the one that was written first; the run whose turn it is comes before its own row.
SELECT id, number FROM workflow_runs
WHERE workspace_id = ? AND thread_id = ?
    AND (claim IS NOT NULL OR status IN ('running', 'waiting', 'paused'))
    AND status NOT IN ('completed', 'failed', 'cancelled')
ORDER BY claim IS NULL, status = 'pending', number LIMIT 1;

-- pending_on_thread
-- The last run before a pending one on its thread.
SELECT id FROM workflow_runs
WHERE workspace_id = ? AND thread_id = ? AND status = 'pending' AND number < ?
ORDER BY number DESC LIMIT 1;

-- begun_in_sequence
SELECT id, number FROM workflow_runs
WHERE workspace_id = ? AND sequence = ?
    AND (claim IS NOT NULL OR status IN ('running', 'waiting', 'paused'))
    AND status NOT IN ('completed', 'failed', 'cancelled')
ORDER BY claim IS NULL, status = 'pending', number LIMIT 1;

-- pending_in_sequence
SELECT id FROM workflow_runs
WHERE workspace_id = ? AND sequence = ? AND status = 'pending' AND number < ?
ORDER BY number DESC LIMIT 1;

-- hold
-- Holds a run back: `held_by` is the run that precedes it, or the limit that it has to wait for. The triggers of the
-- table end that.
UPDATE workflow_runs SET held_by = ?
WHERE number = ?;

-- has_held
SELECT EXISTS (
    SELECT 1 FROM workflow_runs WHERE held_by IS NOT NULL ORDER BY held_by LIMIT 1
);

-- limits
SELECT id, max_running FROM workspaces
WHERE max_running IS NOT NULL;

-- queues
SELECT id, max_running, starts_per_minute, tokens, filled_at FROM queues;

-- set_tokens
UPDATE queues SET tokens = ?, filled_at = ?
WHERE id = ?;

-- claimed_in_workspace
SELECT count(*) FROM workflow_runs
WHERE workspace_id = ? AND claim IS NOT NULL;

-- claimed_with_key
SELECT count(*) FROM workflow_runs
WHERE workspace_id = ? AND concurrency_key = ? AND claim IS NOT NULL;

-- claimed_in_queue
SELECT count(*) FROM workflow_runs
WHERE queue = ? AND claim IS NOT NULL;

-- take
UPDATE workflow_runs SET claim = ?, worker_id = ?, due_at = NULL, held_by = NULL, version = version + 1
WHERE number = ?;
