-- Statements of ../../sql/history.sql in the dialect of Postgres.

-- segment_by_id
SELECT place, first, ids FROM segments
WHERE place BETWEEN ? AND ? AND position(?::bytea IN ids) > 0;
