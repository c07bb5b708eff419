-- Statements of writer.py, each after its name.

-- add
SELECT add_writer(?);

-- record
SELECT record_transaction(?, ?);

-- end
-- Waits for a transaction of the writer that is being committed.
UPDATE writers SET ended = TRUE WHERE id = ? RETURNING number;

-- terminate
-- Ends a session of this user that the process has lost, if the server still waits for its client in a transaction.
-- Other sessions are left alone: a commit that waits for a replica must not be disturbed, and the id may be that of
-- another process if there was a pooler between.
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = ? AND usename = session_user AND application_name = current_setting('application_name')
    AND wait_event_type = 'Client' AND state <> 'idle';

-- remove
DELETE FROM writers WHERE id = ?;
