-- Statements of removal.py, each after its name.

-- insert_events
INSERT INTO events (place, body)
VALUES (?, ?);
