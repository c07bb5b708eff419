-- What items mean whose time is over: forgotten.
DELETE FROM vectors
WHERE item IN (SELECT id FROM items WHERE until <= :now)
