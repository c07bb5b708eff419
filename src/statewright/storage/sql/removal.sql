-- Statements of checkpoints/removal.py, each after its name.

-- lines
SELECT id FROM lines
WHERE thread = ?
ORDER BY id;

-- jumps
SELECT place FROM jumps
WHERE place BETWEEN ? AND ?;

-- jump
INSERT INTO jumps (place, parent)
VALUES (?, NULL)
ON CONFLICT (place) DO UPDATE SET parent = NULL;

-- record
UPDATE records SET changes = ?
WHERE place = ?;

-- segment
SELECT place, first, ids, changes, controls FROM segments
WHERE place BETWEEN ? AND ?
ORDER BY place LIMIT 1;

-- update
UPDATE segments SET first = ?, ids = ?, base = NULL, changes = ?, controls = ?
WHERE place = ?;

-- grown
SELECT body FROM grown
WHERE line = ? AND field = ? AND last = ?;

-- grow
INSERT INTO grown (line, field, last, whole, items, body)
VALUES (?, ?, ?, TRUE, ?, ?)
ON CONFLICT (line, field, last) DO UPDATE SET whole = TRUE, items = excluded.items, body = excluded.body;

-- calls
SELECT id, namespace FROM lines
WHERE thread = ? AND branch = ? AND namespace <> '';

-- forks
SELECT jumps.place FROM lines AS gone
JOIN lines AS other ON other.thread = gone.thread AND other.namespace = gone.namespace AND other.id <> gone.id
JOIN jumps ON jumps.place BETWEEN other.id << NUMBER_BITS AND (other.id + 1 << NUMBER_BITS) - 1
WHERE gone.id = :line AND jumps.parent BETWEEN :line << NUMBER_BITS AND (:line + 1 << NUMBER_BITS) - 1;
