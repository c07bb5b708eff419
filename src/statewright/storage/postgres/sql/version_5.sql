-- Claims find runs that are held back by limits in groups, by the indexes: see `claims.sql`.
DROP FUNCTION IF EXISTS release_from_limits(BIGINT, TEXT[], TEXT[]);
CREATE INDEX runs_held_in_workspace
    ON workflow_runs (workspace_id, queue, graph_version, priority, begun, due_at, id)
    WHERE held_by = 'limit of workspace';
CREATE INDEX runs_held_with_key
    ON workflow_runs (workspace_id, concurrency_key, concurrency_limit, queue, graph_version, priority, begun, due_at, id)
    WHERE held_by = 'limit of key';

-- Runs without a limit were held back as well.
UPDATE workflow_runs SET held_by = NULL WHERE held_by = 'limit of key' AND concurrency_limit IS NULL;
