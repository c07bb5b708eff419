-- A result in place of what was there. Where it has no end, one later than those of all before.
INSERT OR REPLACE INTO cache (node, input, value, until)
VALUES (:node, :input, :value, coalesce(:until, max(:never, (SELECT coalesce(max(until), 0) FROM cache) + 1)))
