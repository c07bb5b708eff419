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

-- next_held_key
SELECT workspace_id, concurrency_key FROM workflow_runs INDEXED BY runs_held_by_key
WHERE held_by = 'limit of key' AND (workspace_id, concurrency_key) > (?, ?)
ORDER BY workspace_id, concurrency_key LIMIT 1;
