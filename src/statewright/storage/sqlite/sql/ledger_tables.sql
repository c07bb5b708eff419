-- The tables of a ledger, created when the first one is opened.
-- Each class of records has a table with a column for each field; JSON comes last, since it may be long. Times are
-- microseconds since 1970.

-- The format of the tables, whose existence it marks.
CREATE TABLE IF NOT EXISTS ledger (
    format INTEGER PRIMARY KEY
);
INSERT OR IGNORE INTO ledger (format) VALUES (8);

CREATE TABLE IF NOT EXISTS workflow_runs (
    number            INTEGER PRIMARY KEY,  -- identifies its events
    id                TEXT NOT NULL UNIQUE,
    workspace_id      TEXT NOT NULL,
    graph             TEXT NOT NULL,
    definition_id     TEXT,
    thread_id         TEXT NOT NULL,
    status            TEXT NOT NULL,
    version           INTEGER NOT NULL,
    claim             TEXT,
    worker_id         TEXT,
    due_at            INTEGER,
    held_by           TEXT,  -- the run or limit that a due run waits for: see the triggers
    begun             INTEGER NOT NULL,
    current_step      TEXT,
    total_cost        REAL NOT NULL,
    last_event        INTEGER NOT NULL,
    idempotency_key   TEXT,
    on_busy           TEXT NOT NULL,
    concurrency_key   TEXT,
    concurrency_limit INTEGER,
    sequence          TEXT,
    queue             TEXT NOT NULL,
    priority          INTEGER NOT NULL,
    losses            INTEGER NOT NULL,
    deadline_at       INTEGER,
    source            TEXT NOT NULL,
    parent_id         TEXT,
    parent_waits      INTEGER NOT NULL,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    started_at        INTEGER,
    completed_at      INTEGER,
    failed_at         INTEGER,
    cancelled_at      INTEGER,
    settings          BLOB,
    progress          BLOB,
    tags              BLOB,
    metadata          BLOB,
    error             BLOB,
    output            BLOB,
    input             BLOB,
    graph_version     TEXT GENERATED ALWAYS AS (coalesce(definition_id, '')) VIRTUAL
);
-- Long inputs: the row of a run is rewritten with each of its steps, and its input never changes.
CREATE TABLE IF NOT EXISTS run_inputs (
    run  TEXT PRIMARY KEY,
    body BLOB NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS runs_by_idempotency_key ON workflow_runs (workspace_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS runs_by_workspace ON workflow_runs (workspace_id, created_at);
CREATE INDEX IF NOT EXISTS runs_by_status ON workflow_runs (status, workspace_id, created_at);
CREATE INDEX IF NOT EXISTS runs_completed ON workflow_runs (workspace_id, completed_at)
    WHERE completed_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS runs_failed ON workflow_runs (workspace_id, failed_at)
    WHERE failed_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS runs_cancelled ON workflow_runs (workspace_id, cancelled_at)
    WHERE cancelled_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS runs_by_thread ON workflow_runs (workspace_id, thread_id, status);
CREATE INDEX IF NOT EXISTS runs_due ON workflow_runs (queue, graph_version, priority, begun, due_at, id)
    WHERE due_at IS NOT NULL AND claim IS NULL AND held_by IS NULL;
CREATE INDEX IF NOT EXISTS runs_held ON workflow_runs (held_by, workspace_id, priority, due_at, id)
    WHERE held_by IS NOT NULL;
CREATE INDEX IF NOT EXISTS runs_held_by_key ON workflow_runs (workspace_id, concurrency_key, priority, due_at, id)
    WHERE held_by = 'limit of key';
CREATE INDEX IF NOT EXISTS runs_held_in_workspace
    ON workflow_runs (workspace_id, queue, graph_version, priority, begun, due_at, id)
    WHERE held_by = 'limit of workspace';
CREATE INDEX IF NOT EXISTS runs_held_with_key
    ON workflow_runs (workspace_id, concurrency_key, concurrency_limit, queue, graph_version, priority, begun, due_at, id)
    WHERE held_by = 'limit of key';
CREATE INDEX IF NOT EXISTS runs_begun_on_thread ON workflow_runs (workspace_id, thread_id)
    WHERE claim IS NOT NULL OR status IN ('running', 'waiting', 'paused');
CREATE INDEX IF NOT EXISTS runs_pending_in_sequence ON workflow_runs (workspace_id, sequence, number)
    WHERE status = 'pending' AND sequence IS NOT NULL;
CREATE INDEX IF NOT EXISTS runs_begun_in_sequence ON workflow_runs (workspace_id, sequence)
    WHERE (claim IS NOT NULL OR status IN ('running', 'waiting', 'paused')) AND sequence IS NOT NULL;
CREATE INDEX IF NOT EXISTS runs_claimed ON workflow_runs (workspace_id, claim)
    WHERE claim IS NOT NULL;
CREATE INDEX IF NOT EXISTS runs_claimed_by_key ON workflow_runs (workspace_id, concurrency_key, claim)
    WHERE claim IS NOT NULL AND concurrency_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS runs_claimed_by_queue ON workflow_runs (queue, claim)
    WHERE claim IS NOT NULL;
-- Runs that wait or are paused, and are not due at any time.
CREATE INDEX IF NOT EXISTS runs_waiting ON workflow_runs (queue)
    WHERE claim IS NULL AND due_at IS NULL AND status NOT IN ('completed', 'failed', 'cancelled');
CREATE INDEX IF NOT EXISTS runs_by_worker ON workflow_runs (worker_id)
    WHERE claim IS NOT NULL;
CREATE INDEX IF NOT EXISTS runs_by_parent ON workflow_runs (parent_id)
    WHERE parent_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS runs_by_deadline ON workflow_runs (deadline_at)
    WHERE deadline_at IS NOT NULL;

-- The logs of runs. A place is the number of the run << 32 | the number of the last event in the row.
CREATE TABLE IF NOT EXISTS run_events (
    place INTEGER PRIMARY KEY,
    at    INTEGER NOT NULL,
    body  BLOB NOT NULL     -- for each event its type, its payload, and the id of its step
);

CREATE TABLE IF NOT EXISTS run_labels (
    id     TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    name   TEXT NOT NULL,
    value  TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS labels_by_run ON run_labels (run_id);
CREATE INDEX IF NOT EXISTS labels_by_value ON run_labels (name, value, run_id);

CREATE TABLE IF NOT EXISTS step_runs (
    id           TEXT NOT NULL UNIQUE,
    run_id       TEXT NOT NULL,
    task_id      TEXT NOT NULL,
    name         TEXT NOT NULL,
    type         TEXT NOT NULL,
    status       TEXT NOT NULL,
    superstep    INTEGER NOT NULL,
    position     INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    wait_until   INTEGER,
    signal_type  TEXT,
    started_at   INTEGER,
    completed_at INTEGER,
    error        BLOB,
    output       BLOB
);
CREATE INDEX IF NOT EXISTS steps_by_run ON step_runs (run_id);

CREATE TABLE IF NOT EXISTS model_calls (
    id            TEXT NOT NULL UNIQUE,
    run_id        TEXT NOT NULL,
    workspace_id  TEXT NOT NULL,
    step_id       TEXT,
    step_name     TEXT,
    model         TEXT NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost          REAL NOT NULL,
    created_at    INTEGER NOT NULL,
    details       BLOB
);
CREATE INDEX IF NOT EXISTS model_calls_by_run ON model_calls (run_id);
CREATE INDEX IF NOT EXISTS model_calls_by_workspace ON model_calls (workspace_id, created_at);

CREATE TABLE IF NOT EXISTS daily_spending (
    id            TEXT NOT NULL UNIQUE,
    workspace_id  TEXT NOT NULL,
    day           TEXT NOT NULL,
    requests      INTEGER NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost          REAL NOT NULL,
    UNIQUE (workspace_id, day)
);

CREATE TABLE IF NOT EXISTS step_logs (
    id         TEXT NOT NULL UNIQUE,
    run_id     TEXT NOT NULL,
    step_id    TEXT NOT NULL,
    step_name  TEXT NOT NULL,
    attempt    INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    lines      BLOB
);
CREATE INDEX IF NOT EXISTS step_logs_by_run ON step_logs (run_id);

CREATE TABLE IF NOT EXISTS waits (
    id           TEXT NOT NULL UNIQUE,
    run_id       TEXT NOT NULL,
    interrupt_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    step_id      TEXT NOT NULL,
    step_name    TEXT NOT NULL,
    kind         TEXT NOT NULL,
    event        TEXT,
    due_at       INTEGER,
    created_at   INTEGER NOT NULL,
    schema       BLOB,
    value        BLOB
);
CREATE INDEX IF NOT EXISTS waits_by_run ON waits (run_id);
CREATE INDEX IF NOT EXISTS waits_by_workspace ON waits (workspace_id, created_at);

CREATE TABLE IF NOT EXISTS signals (
    id           TEXT NOT NULL UNIQUE,
    run_id       TEXT NOT NULL,
    type         TEXT NOT NULL,
    interrupt_id TEXT,
    key          TEXT,
    sent_by_key  TEXT,
    taken        INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    payload      BLOB
);
CREATE UNIQUE INDEX IF NOT EXISTS signals_by_run ON signals (run_id, key);

CREATE TABLE IF NOT EXISTS approval_requests (
    id             TEXT NOT NULL UNIQUE,
    run_id         TEXT NOT NULL,
    workspace_id   TEXT NOT NULL,
    step_id        TEXT NOT NULL,
    step_name      TEXT NOT NULL,
    content_key    TEXT,
    prompt         TEXT NOT NULL,
    decision       TEXT,
    decided_by     TEXT,
    decided_by_key TEXT,
    decided_at     INTEGER,
    expires_at     INTEGER,
    created_at     INTEGER NOT NULL,
    content        BLOB,
    edited_content BLOB
);
CREATE INDEX IF NOT EXISTS approvals_by_run ON approval_requests (run_id);
CREATE INDEX IF NOT EXISTS approvals_by_workspace ON approval_requests (workspace_id, created_at);
CREATE INDEX IF NOT EXISTS approvals_undecided ON approval_requests (workspace_id, created_at)
    WHERE decision IS NULL;

CREATE TABLE IF NOT EXISTS definitions (
    id           TEXT NOT NULL UNIQUE,
    workspace_id TEXT NOT NULL,
    name         TEXT NOT NULL,
    version      TEXT NOT NULL,
    kind         TEXT NOT NULL,
    description  TEXT NOT NULL,
    digest       TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    body         BLOB,
    UNIQUE (workspace_id, name, version)
);

CREATE TABLE IF NOT EXISTS workers (
    id              TEXT PRIMARY KEY,
    place           TEXT NOT NULL,
    pid             INTEGER NOT NULL,
    process_started TEXT NOT NULL,
    capacity        INTEGER NOT NULL,
    until           INTEGER NOT NULL,
    started_at      INTEGER NOT NULL,
    host            TEXT NOT NULL,
    draining        INTEGER NOT NULL,
    queues          TEXT,
    versions        TEXT
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS webhooks (
    id              TEXT NOT NULL UNIQUE,
    workspace_id    TEXT NOT NULL,
    url             TEXT NOT NULL,
    description     TEXT NOT NULL,
    active          INTEGER NOT NULL,
    failures        INTEGER NOT NULL,
    disabled_reason TEXT,
    created_at      INTEGER NOT NULL,
    events          TEXT,
    secret          BLOB
);
CREATE INDEX IF NOT EXISTS webhooks_by_workspace ON webhooks (workspace_id);

CREATE TABLE IF NOT EXISTS webhook_deliveries (
    id              TEXT NOT NULL UNIQUE,
    webhook_id      TEXT NOT NULL,
    workspace_id    TEXT NOT NULL,
    run_id          TEXT,
    event_type      TEXT NOT NULL,
    status          TEXT NOT NULL,
    attempts        INTEGER NOT NULL,
    response_status INTEGER,
    error           TEXT,
    claim           TEXT,
    due_at          INTEGER,
    created_at      INTEGER NOT NULL,
    delivered_at    INTEGER,
    body            BLOB
);
CREATE INDEX IF NOT EXISTS deliveries_by_webhook ON webhook_deliveries (webhook_id, created_at);
CREATE INDEX IF NOT EXISTS deliveries_due_by_webhook ON webhook_deliveries (webhook_id, due_at)
    WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS deliveries_due ON webhook_deliveries (due_at)
    WHERE due_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS schedules (
    id            TEXT NOT NULL UNIQUE,
    workspace_id  TEXT NOT NULL,
    name          TEXT NOT NULL,
    graph         TEXT NOT NULL,
    definition_id TEXT,
    cron          TEXT NOT NULL,
    timezone      TEXT NOT NULL,
    overlap       TEXT NOT NULL,
    catch_up      TEXT NOT NULL,
    paused        INTEGER NOT NULL,
    next_at       INTEGER,
    last_at       INTEGER,
    last_run_id   TEXT,
    created_at    INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    input         BLOB,
    tags          BLOB,
    metadata      BLOB,
    UNIQUE (workspace_id, name)
);
CREATE INDEX IF NOT EXISTS schedules_due ON schedules (next_at)
    WHERE next_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS triggers (
    id            TEXT NOT NULL UNIQUE,
    workspace_id  TEXT NOT NULL,
    event         TEXT NOT NULL,
    graph         TEXT NOT NULL,
    definition_id TEXT,
    active        INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    match         BLOB
);
CREATE INDEX IF NOT EXISTS triggers_by_event ON triggers (workspace_id, event);

CREATE TABLE IF NOT EXISTS received_events (
    id           TEXT NOT NULL UNIQUE,
    workspace_id TEXT NOT NULL,
    name         TEXT NOT NULL,
    key          TEXT,
    created_at   INTEGER NOT NULL,
    payload      BLOB,
    started      BLOB,
    woken        BLOB
);
CREATE UNIQUE INDEX IF NOT EXISTS received_events_by_key ON received_events (workspace_id, key)
    WHERE key IS NOT NULL;

CREATE TABLE IF NOT EXISTS workspaces (
    id                TEXT PRIMARY KEY,
    slug              TEXT NOT NULL UNIQUE,
    name              TEXT NOT NULL,
    max_running       INTEGER,
    starts_per_minute INTEGER,
    retention_days    INTEGER,
    created_at        INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS queues (
    id                TEXT NOT NULL UNIQUE,
    max_running       INTEGER,
    starts_per_minute INTEGER,
    tokens            REAL NOT NULL,
    filled_at         INTEGER
);

CREATE TABLE IF NOT EXISTS api_keys (
    id                  TEXT NOT NULL UNIQUE,
    workspace_id        TEXT NOT NULL,
    name                TEXT NOT NULL,
    digest              TEXT NOT NULL UNIQUE,
    prefix              TEXT NOT NULL,
    requests_per_minute INTEGER,
    expires_at          INTEGER,
    revoked_at          INTEGER,
    created_at          INTEGER NOT NULL,
    scopes              BLOB
);

CREATE TABLE IF NOT EXISTS sessions (
    id           TEXT NOT NULL UNIQUE,
    key_id       TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    used_at      INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS sessions_by_key ON sessions (key_id);
CREATE INDEX IF NOT EXISTS sessions_by_time ON sessions (used_at);

-- The triggers let a run be next again which a claim had held back: see `storage/ledger/claim.py`.

-- A new run that has to wait is held back at once. Limits are checked only if other runs are held back by them: otherwise
-- the next claim holds it back.
CREATE TRIGGER IF NOT EXISTS held_by_insert AFTER INSERT ON workflow_runs
WHEN NEW.due_at IS NOT NULL AND NEW.claim IS NULL AND NEW.status = 'pending'
BEGIN
    UPDATE workflow_runs SET held_by = coalesce(
        (
            SELECT id FROM workflow_runs
            WHERE workspace_id = NEW.workspace_id AND thread_id = NEW.thread_id AND status = 'pending' AND number < NEW.number
            ORDER BY number DESC LIMIT 1
        ),
        (
            SELECT id FROM workflow_runs
            WHERE workspace_id = NEW.workspace_id AND thread_id = NEW.thread_id
                AND (claim IS NOT NULL OR status IN ('running', 'waiting', 'paused'))
                AND status NOT IN ('completed', 'failed', 'cancelled') AND number <> NEW.number
            LIMIT 1
        ),
        (
            SELECT id FROM workflow_runs
            WHERE workspace_id = NEW.workspace_id AND sequence = NEW.sequence AND status = 'pending' AND number < NEW.number
            ORDER BY number DESC LIMIT 1
        ),
        (
            SELECT id FROM workflow_runs
            WHERE workspace_id = NEW.workspace_id AND sequence = NEW.sequence
                AND (claim IS NOT NULL OR status IN ('running', 'waiting', 'paused'))
                AND status NOT IN ('completed', 'failed', 'cancelled') AND number <> NEW.number
            LIMIT 1
        ),
        (
            SELECT held_by FROM workflow_runs
            WHERE held_by = 'limit of workspace' AND workspace_id = NEW.workspace_id
                AND (SELECT max_running FROM workspaces WHERE id = NEW.workspace_id) <= (
                    SELECT count(*) FROM workflow_runs WHERE workspace_id = NEW.workspace_id AND claim IS NOT NULL
                )
            LIMIT 1
        ),
        (
            SELECT held_by FROM workflow_runs
            WHERE held_by = 'limit of key' AND workspace_id = NEW.workspace_id AND concurrency_key = NEW.concurrency_key
                AND NEW.concurrency_limit <= (
                    SELECT count(*) FROM workflow_runs
                    WHERE workspace_id = NEW.workspace_id AND concurrency_key = NEW.concurrency_key
                        AND claim IS NOT NULL
                )
            LIMIT 1
        )
    )
    WHERE number = NEW.number;
END;

-- A claim, which sets `claim` and `due_at`, releases nothing, and neither does a run that begins.
CREATE TRIGGER IF NOT EXISTS released_by_update AFTER UPDATE OF claim, status, due_at ON workflow_runs
WHEN NEW.claim IS NULL AND (OLD.claim IS NOT NULL OR OLD.due_at IS NOT NEW.due_at)
    OR OLD.status <> NEW.status AND NOT (OLD.status = 'pending' AND NEW.status = 'running')
BEGIN
    UPDATE workflow_runs SET held_by = NULL WHERE held_by = OLD.id;
    UPDATE workflow_runs SET held_by = NULL WHERE number = (
        SELECT number FROM workflow_runs
        WHERE held_by = 'limit of workspace' AND workspace_id = OLD.workspace_id
        ORDER BY priority, due_at, id LIMIT 1
    );
    UPDATE workflow_runs SET held_by = NULL WHERE number = (
        SELECT number FROM workflow_runs
        WHERE held_by = 'limit of key' AND workspace_id = OLD.workspace_id AND concurrency_key = OLD.concurrency_key
            AND concurrency_limit > (
                SELECT count(*) FROM workflow_runs
                WHERE workspace_id = OLD.workspace_id AND concurrency_key = OLD.concurrency_key AND claim IS NOT NULL
            )
        ORDER BY priority, due_at, id LIMIT 1
    );
END;

CREATE TRIGGER IF NOT EXISTS released_by_delete AFTER DELETE ON workflow_runs
BEGIN
    UPDATE workflow_runs SET held_by = NULL WHERE held_by = OLD.id;
    UPDATE workflow_runs SET held_by = NULL WHERE number = (
        SELECT number FROM workflow_runs
        WHERE held_by = 'limit of workspace' AND workspace_id = OLD.workspace_id
        ORDER BY priority, due_at, id LIMIT 1
    );
    UPDATE workflow_runs SET held_by = NULL WHERE number = (
        SELECT number FROM workflow_runs
        WHERE held_by = 'limit of key' AND workspace_id = OLD.workspace_id AND concurrency_key = OLD.concurrency_key
            AND concurrency_limit > (
                SELECT count(*) FROM workflow_runs
                WHERE workspace_id = OLD.workspace_id AND concurrency_key = OLD.concurrency_key AND claim IS NOT NULL
            )
        ORDER BY priority, due_at, id LIMIT 1
    );
END;

-- A run that has changed itself is considered again.
CREATE TRIGGER IF NOT EXISTS released_by_change
AFTER UPDATE OF status, due_at, concurrency_key, concurrency_limit ON workflow_runs
WHEN NEW.held_by IS NOT NULL
BEGIN
    UPDATE workflow_runs SET held_by = NULL WHERE number = NEW.number;
END;

-- A start that did not take place gives its token back.
CREATE TRIGGER IF NOT EXISTS token_returned AFTER UPDATE OF claim ON workflow_runs
WHEN OLD.claim IS NOT NULL AND NEW.claim IS NULL AND NOT NEW.begun AND NEW.status = 'pending'
BEGIN
    UPDATE queues SET tokens = tokens + 1 WHERE id = OLD.queue AND starts_per_minute IS NOT NULL;
END;
