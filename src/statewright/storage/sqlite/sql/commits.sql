-- Statements of checkpoints/commits.py, each after its name.

-- thread
SELECT id, epoch, owner, until, wanted FROM threads
WHERE workspace = ? AND thread_id = ?;

-- insert_thread
INSERT INTO threads (workspace, thread_id, changed)
VALUES (?, ?, ?);

-- write_lease
UPDATE threads SET epoch = ?, owner = ?, until = ?, wanted = ?, changed = ?
WHERE id = ?;

-- line
SELECT id FROM lines
WHERE thread = ? AND namespace = ? AND branch = ?;

-- lines
SELECT id FROM lines
WHERE thread = ? AND namespace = ?
ORDER BY id;

-- insert_line
INSERT INTO lines (thread, namespace, branch)
VALUES (?, ?, ?);

-- head
SELECT place, id FROM records
WHERE place BETWEEN ? AND ?
ORDER BY place DESC LIMIT 1;

-- count
SELECT count(*), total(length(control) + ifnull(length(changes), 0)) FROM records
WHERE place BETWEEN ? AND ?;

-- run
SELECT id FROM runs
WHERE thread = ? AND name = ?;

-- insert_run
INSERT INTO runs (thread, name)
VALUES (?, ?);

-- insert_record
INSERT INTO records (place, id, run, number, control, changes, events)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- insert_jump
INSERT INTO jumps (place, parent)
VALUES (?, ?);

-- consume
-- Deletes attempts (4) and retries (7). If the tasks are done and not discarded, which both flags say, also the journal
-- (5), and results (0) if there are no questions (1).
DELETE FROM pending
WHERE place = ? AND (
    kind IN (4, 7)
    OR (kind = 5 AND ?)
    OR (kind = 0 AND ? AND NOT EXISTS (SELECT 1 FROM pending AS asked WHERE asked.place = ? AND asked.kind = 1))
);

-- upsert
INSERT INTO pending (place, kind, key, body)
VALUES (?, ?, ?, ?)
ON CONFLICT (place, kind, key) DO UPDATE SET body = excluded.body;

-- pending
SELECT 1 FROM pending
WHERE place = ? AND kind = ? AND key = ?;

-- raise_epoch
UPDATE threads SET epoch = epoch + 1
WHERE id = ?;

-- insert_events
INSERT INTO events (place, body)
VALUES (?, ?);
