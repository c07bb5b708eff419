-- Statements of ../../sql/ledger.sql in the dialect of Postgres.

-- subscribers
-- The end of a query of the webhooks of a workspace that subscribe to a type of event.
FROM webhooks
WHERE workspace_id = ? AND active = 1 AND (
    coalesce(events, '[]') = '[]'
    OR EXISTS (SELECT 1 FROM json_array_elements_text(events::JSON) AS value WHERE value = ?)
);

-- due
-- Due runs after a position in their order, except those of some workspaces.
SELECT due_at, id, number, status = 'pending', workspace_id, thread_id, queue, concurrency_key, concurrency_limit
FROM workflow_runs
WHERE claim IS NULL AND due_at <= ? AND (due_at, id) > (?, ?)
    AND workspace_id NOT IN (SELECT value FROM json_array_elements_text(?::JSON))
ORDER BY due_at, id LIMIT ?;
