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
SELECT CAST(coalesce(sum(items), 0) AS BIGINT) FROM grown
WHERE line = :line AND field = :field AND last >= coalesce((SELECT max(last) FROM grown WHERE line = :line AND field = :field AND whole), 0);

-- since_base
WITH based AS (SELECT place, length(base) AS size FROM segments WHERE place BETWEEN :first AND :last AND base IS NOT NULL
    ORDER BY place DESC LIMIT 1)
SELECT CAST(coalesce(sum(length(changes)), 0) AS BIGINT), count(*), coalesce((SELECT size FROM based), 0)
FROM segments
WHERE place BETWEEN coalesce((SELECT place FROM based), :first) AND :last;
