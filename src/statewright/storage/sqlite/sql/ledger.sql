-- Statements of ledger.py, each after its name.

-- format
SELECT max(format) FROM ledger;

-- number
SELECT number FROM workflow_runs
WHERE id = ?;

-- events
SELECT place, at, body FROM run_events
WHERE place BETWEEN ? AND ?
ORDER BY place;
