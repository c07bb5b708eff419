-- Statements of ../../sql/ledger.sql in the dialect of Postgres.

-- subscribers
-- The end of a query of the webhooks of a workspace that subscribe to a type of event.
FROM webhooks
WHERE workspace_id = ? AND active = 1 AND (
    coalesce(events, '[]') = '[]'
    OR EXISTS (SELECT 1 FROM json_array_elements_text(events::JSON) AS value WHERE value = ?)
);

-- claim_runs
-- The end of a query of the runs that a worker has claimed.
FROM claim_runs(?, ?::TEXT[], coalesce(?::BIGINT, current_microseconds()), ?::TEXT[], ?::TEXT[]) AS workflow_runs;

-- next_due
SELECT next_due(?::TEXT[], ?::TEXT[]), EXISTS (
    SELECT 1 FROM workflow_runs WHERE held_by IS NOT NULL ORDER BY held_by LIMIT 1
);

-- due_sizes
-- The size of each group of due runs: see `size_of_due_group`.
SELECT due_group.queue, size.due, size.due_since FROM due_groups() AS due_group
CROSS JOIN LATERAL (
    SELECT count(*) AS due, min(due_at) AS due_since FROM workflow_runs
    WHERE queue = due_group.queue AND graph_version = due_group.graph_version
        AND priority = due_group.priority AND begun = due_group.begun AND due_at <= ?
        AND due_at IS NOT NULL AND claim IS NULL AND held_by IS NULL
) AS size;
