-- Statements of ledger_changes.py, each after its name.

-- insert_events
INSERT INTO run_events (place, at, body)
VALUES (?, ?, ?);

-- delete_events
DELETE FROM run_events
WHERE place BETWEEN :run << 32 AND (:run << 32) + 0xFFFFFFFF;

-- webhooks
SELECT id, events FROM webhooks
WHERE workspace_id = ? AND active
ORDER BY id;

-- insert_input
INSERT INTO run_inputs (run, body)
VALUES (?, ?);

-- delete_input
DELETE FROM run_inputs
WHERE run = ?;
