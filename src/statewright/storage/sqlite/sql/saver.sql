-- Statements of ../../sql/saver.sql in the dialect of SQLite.

-- threads
-- Threads whose ids begin with a text. Compared as bytes, because functions of text stop at a null character.
SELECT thread_id, changed, owner FROM threads
WHERE workspace = :workspace
    AND substr(CAST(thread_id AS BLOB), 1, length(CAST(:prefix AS BLOB))) = CAST(:prefix AS BLOB)
ORDER BY changed DESC, id DESC LIMIT :limit;

-- copy_run
INSERT INTO runs (thread, name)
SELECT ?, name FROM runs
WHERE id = ?;

-- copy_line
INSERT INTO lines (thread, namespace, branch)
SELECT ?, namespace, branch FROM lines
WHERE id = ?;
