-- Statements of writer.py, each after its name.

-- add
SELECT add_writer(?);

-- record
SELECT record_transaction(?, ?);

-- end
-- Waits for a transaction of the writer that is being committed.
UPDATE writers SET ended = TRUE WHERE id = ? RETURNING number;

-- terminate
-- Ends a session of this user that the process has lost, if the server waits for its client in a transaction. Returns
-- whether it was ended, and no row if there is no such session, or it is in no transaction.
-- A session that is executing a statement is left alone: a commit that waits for a replica must not be disturbed. The id
-- may be that of another process if there was a pooler between, which is why the name of the application is compared.
SELECT CASE WHEN wait_event_type = 'Client' THEN pg_terminate_backend(pid) ELSE FALSE END FROM pg_stat_activity
WHERE pid = ? AND usename = session_user AND application_name = current_setting('application_name')
    AND state <> 'idle';

-- remove
DELETE FROM writers WHERE id = ?;
