-- Statements of sqlite/ledger.py, each after its name.

-- format
SELECT max(format) FROM ledger;

-- decided_by_key
ALTER TABLE approval_requests ADD COLUMN decided_by_key TEXT;

-- format_two
INSERT INTO ledger (format) VALUES (2);

-- daily_spending
CREATE TABLE daily_spending (
    id            TEXT NOT NULL UNIQUE,
    workspace_id  TEXT NOT NULL,
    day           TEXT NOT NULL,
    requests      INTEGER NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost          REAL NOT NULL,
    UNIQUE (workspace_id, day)
);

-- spending_of_calls
INSERT INTO daily_spending (id, workspace_id, day, requests, input_tokens, output_tokens, cost)
SELECT workspace_id || '/' || date(created_at / 1000000, 'unixepoch'), workspace_id,
       date(created_at / 1000000, 'unixepoch') AS day,
       count(*), sum(input_tokens), sum(output_tokens), total(cost)
FROM model_calls
GROUP BY workspace_id, day;

-- format_three
INSERT INTO ledger (format) VALUES (3);

-- webhook_events
SELECT id, events FROM webhooks
WHERE events IS NOT NULL;

-- plain_webhook_events
UPDATE webhooks SET events = ?
WHERE id = ?;

-- format_four
INSERT INTO ledger (format) VALUES (4);
