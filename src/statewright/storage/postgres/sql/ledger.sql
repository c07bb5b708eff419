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
