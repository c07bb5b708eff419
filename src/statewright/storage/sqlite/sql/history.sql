-- Statements of ../../sql/history.sql in the dialect of SQLite.

-- segment_by_id
SELECT place, first, ids FROM segments
WHERE place BETWEEN ? AND ? AND instr(ids, ?);
