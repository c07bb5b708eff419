-- Statements of commits.py and checkpoints/commits.py, each after its name.

-- save_commit
SELECT * FROM save_commit(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?::BIGINT[], ?::TEXT[], ?::BYTEA[], ?, ?, ?, ?, ?, ?);

-- save_results
SELECT save_results(
    ?, ?, ?, ?, ?, ?::TEXT[], ?::BIGINT[], ?::TEXT[], ?::BYTEA[], ?, ?, ?, ?, ?, ?, ?, ?, ?
);

-- save_log
SELECT save_log(?, ?, ?, ?, ?);

-- drop_calls
SELECT drop_calls(?, ?, ?, ?::TEXT[]);

-- renew
SELECT renew_lease(?, ?, ?, ?, ?, ?, ?, ?);

-- thread
-- A thread. The end of its lease is given by the clock that shows the first parameter now, if that is not NULL.
SELECT id, epoch, owner, until + coalesce(?::BIGINT - current_microseconds(), 0), wanted FROM threads
WHERE workspace = ? AND thread_id = ?;

-- thread_number
SELECT id FROM threads
WHERE workspace = ? AND thread_id = ?;

-- lines
SELECT id FROM lines
WHERE thread = ? AND namespace = ?
ORDER BY id;

-- count_records
UPDATE lines SET (records, size) = (
    SELECT count(*), coalesce(sum(octet_length(control) + coalesce(octet_length(changes), 0)), 0) FROM records
    WHERE place BETWEEN lines.id << NUMBER_BITS AND (lines.id + 1 << NUMBER_BITS) - 1
)
WHERE id = ?;

-- record_sizes
SELECT records, size FROM lines
WHERE id = ?;

-- insert_events
INSERT INTO events (place, body)
VALUES (?, ?);
