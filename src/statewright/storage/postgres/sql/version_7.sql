-- For the web page. What a run has achieved in its current superstep, and the sessions of people who have signed in:
ALTER TABLE workflow_runs ADD COLUMN progress BYTEA;

CREATE TABLE sessions (
    id           TEXT COLLATE "C" PRIMARY KEY,
    key_id       TEXT COLLATE "C" NOT NULL,
    workspace_id TEXT COLLATE "C" NOT NULL,
    created_at   BIGINT NOT NULL,
    used_at      BIGINT NOT NULL
);
CREATE INDEX sessions_by_key ON sessions (key_id);
CREATE INDEX sessions_by_time ON sessions (used_at);

-- The id of the API key with which a signal or an answer was sent.
ALTER TABLE signals ADD COLUMN sent_by_key TEXT COLLATE "C";

-- Runs that have ended since an instant. A run is written to one of these once, so its steps cost nothing.
CREATE INDEX runs_completed ON workflow_runs (workspace_id, completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX runs_failed ON workflow_runs (workspace_id, failed_at) WHERE failed_at IS NOT NULL;
CREATE INDEX runs_cancelled ON workflow_runs (workspace_id, cancelled_at) WHERE cancelled_at IS NOT NULL;
