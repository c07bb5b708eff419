-- Statements of ../../sql/ledger.sql in the dialect of SQLite.

-- values_of_list
-- The values of a list in JSON.
SELECT value FROM json_each(?);

-- subscribers
-- The end of a query of the webhooks of a workspace that subscribe to a type of event.
FROM webhooks
WHERE workspace_id = ? AND active AND (
    coalesce(events, '[]') = '[]'
    OR EXISTS (SELECT 1 FROM json_each(events) WHERE value = ?)
);

-- next_held_workspace
-- The next workspace with runs that are held back by its limit.
SELECT workspace_id FROM workflow_runs INDEXED BY runs_held_in_workspace
WHERE held_by = 'limit of workspace' AND workspace_id > ?
ORDER BY workspace_id LIMIT 1;

-- next_group_in_workspace
-- The next group of the runs that a workspace holds back: see `next_due_group`.
SELECT queue, graph_version, priority, begun FROM workflow_runs INDEXED BY runs_held_in_workspace
WHERE held_by = 'limit of workspace' AND workspace_id = ?
    AND (queue, graph_version, priority, begun, due_at) > (?, ?, ?, ?, 9223372036854775807)
ORDER BY queue, graph_version, priority, begun LIMIT 1;

-- held_in_workspace
SELECT due_at, id, number, status = 'pending', workspace_id, thread_id, sequence, concurrency_key, concurrency_limit
FROM workflow_runs INDEXED BY runs_held_in_workspace
WHERE held_by = 'limit of workspace' AND workspace_id = ?
    AND queue = ? AND graph_version = ? AND priority = ? AND begun = ? AND due_at <= ?
ORDER BY due_at, id LIMIT ?;

-- next_group_with_key
-- The next group of the runs that a concurrency key holds back.
SELECT concurrency_limit, queue, graph_version, priority, begun FROM workflow_runs INDEXED BY runs_held_with_key
WHERE held_by = 'limit of key' AND workspace_id = ? AND concurrency_key = ?
    AND (concurrency_limit, queue, graph_version, priority, begun, due_at) > (?, ?, ?, ?, ?, 9223372036854775807)
ORDER BY concurrency_limit, queue, graph_version, priority, begun LIMIT 1;

-- held_with_key
SELECT due_at, id, number, status = 'pending', workspace_id, thread_id, sequence, concurrency_key, concurrency_limit
FROM workflow_runs INDEXED BY runs_held_with_key
WHERE held_by = 'limit of key' AND workspace_id = ? AND concurrency_key = ? AND concurrency_limit = ?
    AND queue = ? AND graph_version = ? AND priority = ? AND begun = ? AND due_at <= ?
ORDER BY due_at, id LIMIT ?;

-- next_held_key
SELECT workspace_id, concurrency_key FROM workflow_runs INDEXED BY runs_held_by_key
WHERE held_by = 'limit of key' AND (workspace_id, concurrency_key, priority) > (?, ?, 9223372036854775807)
ORDER BY workspace_id, concurrency_key LIMIT 1;
