-- An item in place of what was there, with a number larger than all before.
INSERT OR REPLACE INTO items (namespace, key, created_at, updated_at, ttl, until, value)
VALUES (:namespace, :key, coalesce(:created_at, :now), :now, :ttl, :now + :ttl, :value)
