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

-- rename_queue
ALTER TABLE workflow_runs RENAME COLUMN queue TO sequence;

-- add_queue
ALTER TABLE workflow_runs ADD COLUMN queue TEXT NOT NULL DEFAULT 'default';

-- add_priority
ALTER TABLE workflow_runs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;

-- add_losses
ALTER TABLE workflow_runs ADD COLUMN losses INTEGER NOT NULL DEFAULT 0;

-- add_held_by
ALTER TABLE workflow_runs ADD COLUMN held_by TEXT;

-- add_graph_version
ALTER TABLE workflow_runs ADD COLUMN graph_version TEXT GENERATED ALWAYS AS (coalesce(definition_id, '')) VIRTUAL;

-- add_host
ALTER TABLE workers ADD COLUMN host TEXT NOT NULL DEFAULT '';

-- add_draining
ALTER TABLE workers ADD COLUMN draining INTEGER NOT NULL DEFAULT 0;

-- add_queues
ALTER TABLE workers ADD COLUMN queues TEXT;

-- add_versions
ALTER TABLE workers ADD COLUMN versions TEXT;

-- drop_runs_by_queue
DROP INDEX runs_by_queue;

-- drop_runs_due
DROP INDEX runs_due;

-- drop_runs_at_work
DROP INDEX runs_at_work;

-- drop_runs_at_work_by_key
DROP INDEX runs_at_work_by_key;

-- format_five
INSERT OR IGNORE INTO ledger (format) VALUES (5);

-- drop_held_by_insert
DROP TRIGGER IF EXISTS held_by_insert;

-- release_unlimited
-- Runs without a limit were held back as well.
UPDATE workflow_runs SET held_by = NULL
WHERE held_by = 'limit of key' AND concurrency_limit IS NULL;

-- format_six
INSERT OR IGNORE INTO ledger (format) VALUES (6);

-- add_progress
ALTER TABLE workflow_runs ADD COLUMN progress BLOB;

-- add_sent_by_key
ALTER TABLE signals ADD COLUMN sent_by_key TEXT;

-- format_seven
INSERT OR IGNORE INTO ledger (format) VALUES (7);

-- format_eight
INSERT OR IGNORE INTO ledger (format) VALUES (8);
