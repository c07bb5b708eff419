-- Statements of removal.py, each after its name.

-- namespaces
SELECT id, namespace FROM lines
WHERE thread = ? AND namespace <> '';

-- insert_events
INSERT INTO events (place, body)
VALUES (?, ?);
