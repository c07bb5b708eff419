-- The result that is kept under a key, unless its time is over.
SELECT value FROM cache
WHERE node = :node AND input = :input AND until > :now
