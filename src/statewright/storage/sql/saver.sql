-- Statements of checkpoints/saver.py, each after its name.

-- want
UPDATE threads SET wanted = ?
WHERE workspace = ? AND thread_id = ? AND owner IS NOT NULL;

-- workspaces
SELECT DISTINCT workspace FROM threads
ORDER BY workspace;

-- thread_numbers
SELECT id, thread_id FROM threads
WHERE workspace = ?
ORDER BY id;

-- runs
SELECT thread, id, name FROM runs
WHERE thread = (SELECT id FROM threads WHERE workspace = ? AND thread_id = ?)
ORDER BY id;

-- namespaces
SELECT DISTINCT namespace FROM lines
WHERE thread = (SELECT id FROM threads WHERE workspace = ? AND thread_id = ?)
ORDER BY namespace;

-- numbers_of_runs
SELECT id FROM runs
WHERE thread = ?
ORDER BY id;

-- numbers_of_lines
SELECT id FROM lines
WHERE thread = ?
ORDER BY id;

-- copy_thread
INSERT INTO threads (workspace, thread_id, changed)
SELECT workspace, ?, changed FROM threads
WHERE id = ?;

-- copy_events
INSERT INTO events (place, body)
SELECT place + ?, body FROM events
WHERE place BETWEEN ? AND ?;

-- copy_records
INSERT INTO records (place, id, run, number, control, changes, events)
SELECT place + ?, records.id, copied.id, number, control, changes, events FROM records
JOIN runs ON runs.id = records.run
JOIN runs AS copied ON copied.thread = ? AND copied.name = runs.name
WHERE place BETWEEN ? AND ?;

-- copy_segments
INSERT INTO segments (place, first, ids, apart, base, changes, controls)
SELECT place + ?, first, ids, apart, base, changes, controls FROM segments
WHERE place BETWEEN ? AND ?;

-- copy_pending
INSERT INTO pending (place, kind, key, body)
SELECT place + ?, kind, key, body FROM pending
WHERE place BETWEEN ? AND ?;

-- copy_grown
INSERT INTO grown (line, field, last, whole, items, body)
SELECT ?, field, last, whole, items, body FROM grown
WHERE line = ?;

-- jumps
SELECT place, parent FROM jumps
WHERE place BETWEEN ? AND ?;

-- copy_jump
INSERT INTO jumps (place, parent)
VALUES (?, ?);
