-- Statements of checkpoints/row_ids.py and history.py, each after its name.

-- last_jump
SELECT place, parent FROM jumps
WHERE place BETWEEN ? AND ?
ORDER BY place DESC LIMIT 1;

-- line
-- Not a join: a planner that takes the tables for empty would begin with the lines.
SELECT id FROM lines
WHERE thread = (SELECT id FROM threads WHERE workspace = ? AND thread_id = ?) AND namespace = ? AND branch = ?;

-- lines
SELECT id, branch FROM lines
WHERE thread = (SELECT id FROM threads WHERE workspace = ? AND thread_id = ?) AND namespace = ?
ORDER BY id;

-- head
SELECT place, id FROM records
WHERE place BETWEEN ? AND ?
ORDER BY place DESC LIMIT 1;

-- record_by_id
SELECT place FROM records
WHERE place BETWEEN ? AND ? AND id = ?;

-- apart
SELECT first, apart FROM segments
WHERE place BETWEEN ? AND ?
ORDER BY place LIMIT 1;

-- segment_at
SELECT place, first FROM segments
WHERE place BETWEEN ? AND ?
ORDER BY place LIMIT 1;

-- segment_before
SELECT place FROM segments
WHERE place BETWEEN ? AND ?
ORDER BY place DESC LIMIT 1;

-- segments
SELECT place, first, base, changes FROM segments
WHERE place BETWEEN ? AND ?
ORDER BY place DESC;

-- capacity
SELECT (SELECT count(*) FROM records WHERE place BETWEEN :first AND :last)
    + (SELECT CAST(coalesce(sum(length(ids)), 0) AS BIGINT) / 16 FROM segments WHERE place BETWEEN :first AND :end);

-- segment_controls
SELECT place, first, ids, controls FROM segments
WHERE place BETWEEN ? AND ? AND first <= ?
ORDER BY place;

-- segment_changes
SELECT place, first, ids, changes FROM segments
WHERE place BETWEEN ? AND ? AND first <= ?
ORDER BY place;

-- grown
SELECT whole, body FROM grown
WHERE line = ? AND field = ? AND last BETWEEN ? AND ?
ORDER BY last DESC;

-- grown_in
SELECT field, body FROM grown
WHERE line = ? AND last = ?;

-- fields
SELECT DISTINCT field FROM grown
WHERE line = ?;

-- first
SELECT coalesce((SELECT first FROM segments WHERE place BETWEEN :first AND :last
        ORDER BY place LIMIT 1), (SELECT place & LAST_NUMBER FROM records WHERE place BETWEEN :first AND :last
        ORDER BY place LIMIT 1));

-- records
SELECT place, changes FROM records
WHERE place BETWEEN ? AND ?
ORDER BY place;

-- controls
SELECT place, records.id, runs.name, control FROM records
JOIN runs ON runs.id = records.run
WHERE place BETWEEN ? AND ?
ORDER BY place;

-- events
SELECT place, body FROM events
WHERE place BETWEEN ? AND ?
ORDER BY place;

-- thread_lines
SELECT id FROM lines
WHERE thread = ?;

-- namespace
SELECT namespace FROM lines
WHERE id = ?;

-- record_logs
SELECT run, number, control, events FROM records
WHERE place BETWEEN ? AND ? AND events IS NOT NULL
ORDER BY place;

-- jump
SELECT parent FROM jumps
WHERE place = ?;

-- jumps_between
SELECT place, parent FROM jumps
WHERE place BETWEEN ? AND ?;

-- pending
SELECT place, kind, key, body FROM pending
WHERE place BETWEEN ? AND ?
ORDER BY place, kind, key;
