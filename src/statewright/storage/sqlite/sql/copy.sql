-- Statements of storage/copy/copy.py, each after its name.

-- held
-- The threads whose leases have not expired. The unit of `julianday` is a day.
SELECT thread_id, owner FROM threads
WHERE owner IS NOT NULL AND until > (julianday('now') - 2440587.5) * 86400000000
ORDER BY id;

-- workers
SELECT id, place, pid, process_started FROM workers
WHERE until > (julianday('now') - 2440587.5) * 86400000000
ORDER BY id;
