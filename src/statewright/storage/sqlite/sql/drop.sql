-- Statements of drop.py, each after its name.

-- calls
SELECT id, namespace FROM lines
WHERE thread = ? AND branch = ? AND namespace <> '';

-- forks
SELECT jumps.place FROM lines AS gone
JOIN lines AS other ON other.thread = gone.thread AND other.namespace = gone.namespace AND other.id <> gone.id
JOIN jumps ON jumps.place BETWEEN other.id << 32 AND (other.id + 1 << 32) - 1
WHERE gone.id = :line AND jumps.parent BETWEEN :line << 32 AND (:line + 1 << 32) - 1;
