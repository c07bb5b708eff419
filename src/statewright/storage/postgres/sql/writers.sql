-- Statements of writer.py, each after its name.

-- add
SELECT add_writer(?);

-- record
SELECT record_transaction(?, ?);

-- end
-- Waits for a transaction of the writer that is being committed.
UPDATE writers SET ended = TRUE WHERE id = ? RETURNING number;

-- remove
DELETE FROM writers WHERE id = ?;
