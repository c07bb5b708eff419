-- The tables of a ledger: one for each class of records, with a column for each field. JSON comes last, since it may be
-- long. Times are microseconds since 1970, flags are 0 and 1. Names are sorted by their bytes.

-- A run is updated with each of its steps. No index has a column that only steps change, and the pages have room for new
-- versions of their rows, so that an update touches one page.
CREATE TABLE workflow_runs (
    number            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- identifies its events
    id                TEXT COLLATE "C" NOT NULL UNIQUE,
    workspace_id      TEXT COLLATE "C" NOT NULL,
    graph             TEXT COLLATE "C" NOT NULL,
    definition_id     TEXT COLLATE "C",
    thread_id         TEXT COLLATE "C" NOT NULL,
    status            TEXT COLLATE "C" NOT NULL,
    version           BIGINT NOT NULL,
    claim             TEXT COLLATE "C",
    worker_id         TEXT COLLATE "C",
    due_at            BIGINT,
    held_by           TEXT COLLATE "C",  -- the run or limit that a due run waits for: see the triggers
    begun             BIGINT NOT NULL,
    current_step      TEXT COLLATE "C",
    total_cost        DOUBLE PRECISION NOT NULL,
    last_event        BIGINT NOT NULL,
    idempotency_key   TEXT COLLATE "C",
    on_busy           TEXT COLLATE "C" NOT NULL,
    concurrency_key   TEXT COLLATE "C",
    concurrency_limit BIGINT,
    sequence          TEXT COLLATE "C",
    queue             TEXT COLLATE "C" NOT NULL,
    priority          BIGINT NOT NULL,
    losses            BIGINT NOT NULL,
    deadline_at       BIGINT,
    source            TEXT COLLATE "C" NOT NULL,
    parent_id         TEXT COLLATE "C",
    parent_waits      BIGINT NOT NULL,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    started_at        BIGINT,
    completed_at      BIGINT,
    failed_at         BIGINT,
    cancelled_at      BIGINT,
    settings          BYTEA,
    tags              BYTEA,
    metadata          BYTEA,
    error             BYTEA,
    output            BYTEA,
    input             BYTEA,
    graph_version     TEXT COLLATE "C" GENERATED ALWAYS AS (coalesce(definition_id, '')) STORED
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
-- Long inputs: the row of a run is rewritten with each of its steps, and its input never changes.
CREATE TABLE run_inputs (
    run  TEXT COLLATE "C" PRIMARY KEY,
    body BYTEA NOT NULL
);
CREATE UNIQUE INDEX runs_by_idempotency_key ON workflow_runs (workspace_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX runs_by_workspace ON workflow_runs (workspace_id, created_at);
CREATE INDEX runs_by_status ON workflow_runs (status, workspace_id, created_at);
CREATE INDEX runs_by_thread ON workflow_runs (workspace_id, thread_id, status, number);
CREATE INDEX runs_due ON workflow_runs (queue, graph_version, priority, begun, due_at, id)
    WHERE due_at IS NOT NULL AND claim IS NULL AND held_by IS NULL;
CREATE INDEX runs_held ON workflow_runs (held_by, workspace_id, priority, due_at, id)
    WHERE held_by IS NOT NULL;
CREATE INDEX runs_held_by_key ON workflow_runs (workspace_id, concurrency_key, priority, due_at, id)
    WHERE held_by = 'limit of key';
CREATE INDEX runs_begun_on_thread ON workflow_runs (workspace_id, thread_id)
    WHERE claim IS NOT NULL OR status IN ('running', 'waiting', 'paused');
CREATE INDEX runs_pending_in_sequence ON workflow_runs (workspace_id, sequence, number)
    WHERE status = 'pending' AND sequence IS NOT NULL;
CREATE INDEX runs_begun_in_sequence ON workflow_runs (workspace_id, sequence)
    WHERE (claim IS NOT NULL OR status IN ('running', 'waiting', 'paused')) AND sequence IS NOT NULL;
CREATE INDEX runs_claimed ON workflow_runs (workspace_id)
    WHERE claim IS NOT NULL;
CREATE INDEX runs_claimed_by_key ON workflow_runs (workspace_id, concurrency_key)
    WHERE claim IS NOT NULL AND concurrency_key IS NOT NULL;
CREATE INDEX runs_claimed_by_queue ON workflow_runs (queue)
    WHERE claim IS NOT NULL;
CREATE INDEX runs_by_worker ON workflow_runs (worker_id)
    WHERE claim IS NOT NULL;
CREATE INDEX runs_by_parent ON workflow_runs (parent_id)
    WHERE parent_id IS NOT NULL;
CREATE INDEX runs_by_deadline ON workflow_runs (deadline_at)
    WHERE deadline_at IS NOT NULL;

-- The logs of runs. A place is the number of the run << 28 | the number of the last event in the row.
CREATE TABLE run_events (
    place BIGINT PRIMARY KEY,
    at    BIGINT NOT NULL,
    body  BYTEA NOT NULL     -- for each event its type, its payload, and the id of its step
);

CREATE TABLE run_labels (
    id     TEXT COLLATE "C" PRIMARY KEY,
    run_id TEXT COLLATE "C" NOT NULL,
    name   TEXT COLLATE "C" NOT NULL,
    value  TEXT COLLATE "C" NOT NULL
);
CREATE INDEX labels_by_run ON run_labels (run_id);
CREATE INDEX labels_by_value ON run_labels (name, value, run_id);

CREATE TABLE step_runs (
    id           TEXT COLLATE "C" PRIMARY KEY,
    run_id       TEXT COLLATE "C" NOT NULL,
    task_id      TEXT COLLATE "C" NOT NULL,
    name         TEXT COLLATE "C" NOT NULL,
    type         TEXT COLLATE "C" NOT NULL,
    status       TEXT COLLATE "C" NOT NULL,
    superstep    BIGINT NOT NULL,
    position     BIGINT NOT NULL,
    attempt      BIGINT NOT NULL,
    wait_until   BIGINT,
    signal_type  TEXT COLLATE "C",
    started_at   BIGINT,
    completed_at BIGINT,
    error        BYTEA,
    output       BYTEA
);
CREATE INDEX steps_by_run ON step_runs (run_id);

CREATE TABLE model_calls (
    id            TEXT COLLATE "C" PRIMARY KEY,
    run_id        TEXT COLLATE "C" NOT NULL,
    workspace_id  TEXT COLLATE "C" NOT NULL,
    step_id       TEXT COLLATE "C",
    step_name     TEXT COLLATE "C",
    model         TEXT COLLATE "C" NOT NULL,
    input_tokens  BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost          DOUBLE PRECISION NOT NULL,
    created_at    BIGINT NOT NULL,
    details       BYTEA
);
CREATE INDEX model_calls_by_run ON model_calls (run_id);
CREATE INDEX model_calls_by_workspace ON model_calls (workspace_id, created_at);

CREATE TABLE daily_spending (
    id            TEXT COLLATE "C" PRIMARY KEY,
    workspace_id  TEXT COLLATE "C" NOT NULL,
    day           TEXT COLLATE "C" NOT NULL,
    requests      BIGINT NOT NULL,
    input_tokens  BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost          DOUBLE PRECISION NOT NULL,
    UNIQUE (workspace_id, day)
);

CREATE TABLE step_logs (
    id         TEXT COLLATE "C" PRIMARY KEY,
    run_id     TEXT COLLATE "C" NOT NULL,
    step_id    TEXT COLLATE "C" NOT NULL,
    step_name  TEXT COLLATE "C" NOT NULL,
    attempt    BIGINT NOT NULL,
    number     BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    lines      BYTEA
);
CREATE INDEX step_logs_by_run ON step_logs (run_id);

CREATE TABLE waits (
    id           TEXT COLLATE "C" PRIMARY KEY,
    run_id       TEXT COLLATE "C" NOT NULL,
    interrupt_id TEXT COLLATE "C" NOT NULL,
    workspace_id TEXT COLLATE "C" NOT NULL,
    step_id      TEXT COLLATE "C" NOT NULL,
    step_name    TEXT COLLATE "C" NOT NULL,
    kind         TEXT COLLATE "C" NOT NULL,
    event        TEXT COLLATE "C",
    due_at       BIGINT,
    created_at   BIGINT NOT NULL,
    schema       BYTEA,
    value        BYTEA
);
CREATE INDEX waits_by_run ON waits (run_id);
CREATE INDEX waits_by_workspace ON waits (workspace_id, created_at);

CREATE TABLE signals (
    id           TEXT COLLATE "C" PRIMARY KEY,
    run_id       TEXT COLLATE "C" NOT NULL,
    type         TEXT COLLATE "C" NOT NULL,
    interrupt_id TEXT COLLATE "C",
    key          TEXT COLLATE "C",
    taken        BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    payload      BYTEA
);
CREATE UNIQUE INDEX signals_by_run ON signals (run_id, key);

CREATE TABLE approval_requests (
    id             TEXT COLLATE "C" PRIMARY KEY,
    run_id         TEXT COLLATE "C" NOT NULL,
    workspace_id   TEXT COLLATE "C" NOT NULL,
    step_id        TEXT COLLATE "C" NOT NULL,
    step_name      TEXT COLLATE "C" NOT NULL,
    content_key    TEXT COLLATE "C",
    prompt         BYTEA NOT NULL,
    decision       TEXT COLLATE "C",
    decided_by     BYTEA,
    decided_by_key TEXT COLLATE "C",
    decided_at     BIGINT,
    expires_at     BIGINT,
    created_at     BIGINT NOT NULL,
    content        BYTEA,
    edited_content BYTEA
);
CREATE INDEX approvals_by_run ON approval_requests (run_id);
CREATE INDEX approvals_by_workspace ON approval_requests (workspace_id, created_at);
CREATE INDEX approvals_undecided ON approval_requests (workspace_id, created_at)
    WHERE decision IS NULL;

CREATE TABLE definitions (
    id           TEXT COLLATE "C" PRIMARY KEY,
    workspace_id TEXT COLLATE "C" NOT NULL,
    name         TEXT COLLATE "C" NOT NULL,
    version      TEXT COLLATE "C" NOT NULL,
    kind         TEXT COLLATE "C" NOT NULL,
    description  BYTEA NOT NULL,
    digest       TEXT COLLATE "C" NOT NULL,
    created_at   BIGINT NOT NULL,
    body         BYTEA,
    UNIQUE (workspace_id, name, version)
);

CREATE TABLE workers (
    id              TEXT COLLATE "C" PRIMARY KEY,
    place           TEXT COLLATE "C" NOT NULL,
    pid             BIGINT NOT NULL,
    process_started TEXT COLLATE "C" NOT NULL,
    capacity        BIGINT NOT NULL,
    until           BIGINT NOT NULL,
    started_at      BIGINT NOT NULL,
    host            TEXT COLLATE "C" NOT NULL,
    draining        BIGINT NOT NULL,
    queues          TEXT,
    versions        TEXT
);

CREATE TABLE webhooks (
    id              TEXT COLLATE "C" PRIMARY KEY,
    workspace_id    TEXT COLLATE "C" NOT NULL,
    url             BYTEA NOT NULL,
    description     BYTEA NOT NULL,
    active          BIGINT NOT NULL,
    failures        BIGINT NOT NULL,
    disabled_reason BYTEA,
    created_at      BIGINT NOT NULL,
    events          TEXT COLLATE "C",
    secret          BYTEA
);
CREATE INDEX webhooks_by_workspace ON webhooks (workspace_id);

CREATE TABLE webhook_deliveries (
    id              TEXT COLLATE "C" PRIMARY KEY,
    webhook_id      TEXT COLLATE "C" NOT NULL,
    workspace_id    TEXT COLLATE "C" NOT NULL,
    run_id          TEXT COLLATE "C",
    event_type      TEXT COLLATE "C" NOT NULL,
    status          TEXT COLLATE "C" NOT NULL,
    attempts        BIGINT NOT NULL,
    response_status BIGINT,
    error           BYTEA,
    claim           TEXT COLLATE "C",
    due_at          BIGINT,
    created_at      BIGINT NOT NULL,
    delivered_at    BIGINT,
    body            BYTEA
);
CREATE INDEX deliveries_by_webhook ON webhook_deliveries (webhook_id, created_at);
CREATE INDEX deliveries_due_by_webhook ON webhook_deliveries (webhook_id, due_at)
    WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_due ON webhook_deliveries (due_at)
    WHERE due_at IS NOT NULL;

CREATE TABLE schedules (
    id            TEXT COLLATE "C" PRIMARY KEY,
    workspace_id  TEXT COLLATE "C" NOT NULL,
    name          TEXT COLLATE "C" NOT NULL,
    graph         TEXT COLLATE "C" NOT NULL,
    definition_id TEXT COLLATE "C",
    cron          TEXT COLLATE "C" NOT NULL,
    timezone      TEXT COLLATE "C" NOT NULL,
    overlap       TEXT COLLATE "C" NOT NULL,
    catch_up      TEXT COLLATE "C" NOT NULL,
    paused        BIGINT NOT NULL,
    next_at       BIGINT,
    last_at       BIGINT,
    last_run_id   TEXT COLLATE "C",
    created_at    BIGINT NOT NULL,
    version       BIGINT NOT NULL,
    input         BYTEA,
    tags          BYTEA,
    metadata      BYTEA,
    UNIQUE (workspace_id, name)
);
CREATE INDEX schedules_due ON schedules (next_at)
    WHERE next_at IS NOT NULL;

CREATE TABLE triggers (
    id            TEXT COLLATE "C" PRIMARY KEY,
    workspace_id  TEXT COLLATE "C" NOT NULL,
    event         TEXT COLLATE "C" NOT NULL,
    graph         TEXT COLLATE "C" NOT NULL,
    definition_id TEXT COLLATE "C",
    active        BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    match         BYTEA
);
CREATE INDEX triggers_by_event ON triggers (workspace_id, event);

CREATE TABLE received_events (
    id           TEXT COLLATE "C" PRIMARY KEY,
    workspace_id TEXT COLLATE "C" NOT NULL,
    name         TEXT COLLATE "C" NOT NULL,
    key          TEXT COLLATE "C",
    created_at   BIGINT NOT NULL,
    payload      BYTEA,
    started      BYTEA,
    woken        BYTEA
);
CREATE UNIQUE INDEX received_events_by_key ON received_events (workspace_id, key)
    WHERE key IS NOT NULL;

CREATE TABLE workspaces (
    id                TEXT COLLATE "C" PRIMARY KEY,
    slug              TEXT COLLATE "C" NOT NULL UNIQUE,
    name              TEXT COLLATE "C" NOT NULL,
    max_running       BIGINT,
    starts_per_minute BIGINT,
    retention_days    BIGINT,
    created_at        BIGINT NOT NULL
);

CREATE TABLE queues (
    id                TEXT COLLATE "C" PRIMARY KEY,
    max_running       BIGINT,
    starts_per_minute BIGINT,
    tokens            DOUBLE PRECISION NOT NULL,
    filled_at         BIGINT
);

CREATE TABLE api_keys (
    id                  TEXT COLLATE "C" PRIMARY KEY,
    workspace_id        TEXT COLLATE "C" NOT NULL,
    name                TEXT COLLATE "C" NOT NULL,
    digest              TEXT COLLATE "C" NOT NULL UNIQUE,
    prefix              TEXT COLLATE "C" NOT NULL,
    requests_per_minute BIGINT,
    expires_at          BIGINT,
    revoked_at          BIGINT,
    created_at          BIGINT NOT NULL,
    scopes              BYTEA
);
