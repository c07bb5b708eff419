-- Statements of ../../sql/saver.sql in the dialect of Postgres.

-- threads
-- Threads whose ids begin with a text.
SELECT thread_id, changed, owner FROM threads
WHERE workspace = :workspace AND starts_with(thread_id, :prefix)
ORDER BY changed DESC, id DESC LIMIT :limit;

-- copy_run
INSERT INTO runs (thread, name, next)
SELECT ?::BIGINT, name, next FROM runs
WHERE id = ?;

-- copy_line
INSERT INTO lines (thread, namespace, branch, head, head_id, records, size, pending)
SELECT ?::BIGINT, namespace, branch, head, head_id, records, size, pending FROM lines
WHERE id = ?;
