-- Statements of checkpoints/segments.py, each after its name.

-- oldest
SELECT place, records.id, runs.name, control, changes FROM records
JOIN runs ON runs.id = records.run
WHERE place BETWEEN ? AND ?
ORDER BY place LIMIT ?;

-- next_jump
SELECT place FROM jumps
WHERE place BETWEEN ? AND ?
ORDER BY place LIMIT 1;

-- delete
DELETE FROM records
WHERE place BETWEEN ? AND ?;

-- insert
INSERT INTO segments (place, first, ids, apart, base, changes, controls)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- insert_grown
INSERT INTO grown (line, field, last, whole, items, body)
VALUES (?, ?, ?, ?, ?, ?);

-- items
SELECT total(items) FROM grown
WHERE line = :line AND field = :field AND last >= ifnull((SELECT max(last) FROM grown WHERE line = :line AND field = :field AND whole), 0);

-- since_base
WITH based AS (SELECT place, length(base) AS size FROM segments WHERE place BETWEEN :first AND :last AND base IS NOT NULL
    ORDER BY place DESC LIMIT 1)
SELECT total(length(changes)), count(*), ifnull((SELECT size FROM based), 0)
FROM segments
WHERE place BETWEEN ifnull((SELECT place FROM based), :first) AND :last;
