-- Statements of storage/copy/, each after its name. Those that begin with "finish" follow the last row of a copy.

-- held
-- The threads whose leases have not expired.
SELECT thread_id, owner FROM threads
WHERE owner IS NOT NULL AND until > current_microseconds()
ORDER BY id;

-- workers
SELECT id, place, pid, process_started FROM workers
WHERE until > current_microseconds()
ORDER BY id;

-- be_patient
-- The target waits while the source is read.
SET LOCAL idle_in_transaction_session_timeout TO 0;

-- lock
-- Others may read, but not write.
LOCK TABLE :tables IN EXCLUSIVE MODE;

-- advance_next_event
UPDATE runs SET next = greatest(runs.next, logs.next)
FROM unnest(?::BIGINT[], ?::BIGINT[]) AS logs (id, next)
WHERE runs.id = logs.id;

-- finish_heads
-- The head of each line is its newest record.
UPDATE lines SET head = newest.place & 268435455, head_id = newest.id, records = counted.records, size = counted.size,
    pending = EXISTS (SELECT 1 FROM pending WHERE pending.place = newest.place)
FROM (
    SELECT place >> 28 AS line, max(place) AS place, count(*) AS records,
        sum(octet_length(control) + coalesce(octet_length(changes), 0)) AS size
    FROM records
    GROUP BY place >> 28
) AS counted
JOIN records AS newest ON newest.place = counted.place
WHERE lines.id = counted.line;

-- finish_numbering
-- New rows are numbered after the copied ones.
SELECT setval(pg_get_serial_sequence('threads', 'id'), (SELECT coalesce(max(id), 0) + 1 FROM threads), FALSE),
    setval(pg_get_serial_sequence('lines', 'id'), (SELECT coalesce(max(id), 0) + 1 FROM lines), FALSE),
    setval(pg_get_serial_sequence('runs', 'id'), (SELECT coalesce(max(id), 0) + 1 FROM runs), FALSE),
    setval(pg_get_serial_sequence('items', 'id'), (SELECT coalesce(max(id), 0) + 1 FROM items), FALSE),
    setval(
        pg_get_serial_sequence('workflow_runs', 'number'),
        (SELECT coalesce(max(number), 0) + 1 FROM workflow_runs), FALSE
    );

-- finish_statistics
-- The planner would take the tables for empty until autovacuum has looked at them.
ANALYZE threads, lines, runs, records, segments, grown, jumps, pending, events, workflow_runs, run_events, run_inputs,
    step_runs, items;
