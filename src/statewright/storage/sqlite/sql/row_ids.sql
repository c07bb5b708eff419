-- Statements of row_ids.py, each after its name.

-- last_jump
SELECT place, parent FROM jumps
WHERE place BETWEEN ? AND ?
ORDER BY place DESC LIMIT 1;

-- line
SELECT lines.id FROM lines
JOIN threads ON threads.id = lines.thread
WHERE threads.workspace = ? AND threads.thread_id = ? AND namespace = ? AND branch = ?;

-- lines
SELECT lines.id, branch FROM lines
JOIN threads ON threads.id = lines.thread
WHERE threads.workspace = ? AND threads.thread_id = ? AND namespace = ?
ORDER BY lines.id;

-- head
SELECT place, id FROM records
WHERE place BETWEEN ? AND ?
ORDER BY place DESC LIMIT 1;

-- record_by_id
SELECT place FROM records
WHERE place BETWEEN ? AND ? AND id = ?;

-- segment_by_id
SELECT place, first, ids FROM segments
WHERE place BETWEEN ? AND ? AND instr(ids, ?);
