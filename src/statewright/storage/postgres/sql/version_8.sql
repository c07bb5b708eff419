-- The queues of runs that wait or are paused, and are not due at any time. All its columns are in other indexes or their
-- conditions, so a step of a run changes no index, as before.
CREATE INDEX runs_waiting ON workflow_runs (queue)
    WHERE claim IS NULL AND due_at IS NULL AND status NOT IN ('completed', 'failed', 'cancelled');
