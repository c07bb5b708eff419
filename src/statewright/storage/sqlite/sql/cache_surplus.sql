-- What is more than fits: forgotten, what would end first before the rest.
DELETE FROM cache
WHERE (node, input) IN (
    SELECT node, input FROM cache
    ORDER BY until
    LIMIT max(0, (SELECT count(*) FROM cache) - :max_size)
)
