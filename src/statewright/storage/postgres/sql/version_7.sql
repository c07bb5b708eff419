-- What a run has achieved in its current superstep, and the sessions of people who have signed in on the web page.
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
