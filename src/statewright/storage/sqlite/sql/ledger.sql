-- Statements of ledger.py, each after its name.

-- format
SELECT max(format) FROM ledger;

-- decided_by_key
ALTER TABLE approval_requests ADD COLUMN decided_by_key TEXT;

-- format_two
INSERT INTO ledger (format) VALUES (2);

-- number
SELECT number FROM workflow_runs
WHERE id = ?;

-- events
SELECT place, at, body FROM run_events
WHERE place BETWEEN ? AND ?
ORDER BY place;
