-- Claims of runs by workers, and the triggers that let a run be next again which had been held back.
-- `storage/ledger/claim.py` explains the approach, and does the same for SQLite.
-- A migration replaces all of them: the parameters of functions that claims call must stay as they are.

CREATE OR REPLACE FUNCTION release_held_runs() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    UPDATE workflow_runs SET held_by = NULL WHERE held_by = OLD.id;
    UPDATE workflow_runs SET held_by = NULL WHERE number = (
        SELECT number FROM workflow_runs
        WHERE held_by = 'limit of workspace' AND workspace_id = OLD.workspace_id
        ORDER BY priority, due_at, id LIMIT 1
    );
    IF OLD.concurrency_key IS NOT NULL THEN
        UPDATE workflow_runs SET held_by = NULL WHERE number = (
            SELECT number FROM workflow_runs
            WHERE held_by = 'limit of key' AND workspace_id = OLD.workspace_id AND concurrency_key = OLD.concurrency_key
                AND concurrency_limit > (
                    SELECT count(*) FROM workflow_runs
                    WHERE workspace_id = OLD.workspace_id AND concurrency_key = OLD.concurrency_key
                        AND claim IS NOT NULL
                )
            ORDER BY priority, due_at, id LIMIT 1
        );
    END IF;
    RETURN NULL;
END $$;

-- A claim that sets `claim` and `due_at` releases nothing, and neither does a run that begins.
CREATE OR REPLACE TRIGGER released_by_update AFTER UPDATE OF claim, status, due_at ON workflow_runs FOR EACH ROW WHEN (
    NEW.claim IS NULL AND (OLD.claim IS NOT NULL OR OLD.due_at IS DISTINCT FROM NEW.due_at)
    OR OLD.status <> NEW.status AND NOT (OLD.status = 'pending' AND NEW.status = 'running')
) EXECUTE FUNCTION release_held_runs();

CREATE OR REPLACE TRIGGER released_by_delete AFTER DELETE ON workflow_runs FOR EACH ROW EXECUTE FUNCTION release_held_runs();

-- A run that has changed itself is considered again.
CREATE OR REPLACE FUNCTION release_run() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    NEW.held_by := NULL;
    RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER released_by_change BEFORE UPDATE OF status, due_at, concurrency_key, concurrency_limit ON workflow_runs
FOR EACH ROW WHEN (OLD.held_by IS NOT NULL) EXECUTE FUNCTION release_run();

-- A start that did not take place gives its token back.
CREATE OR REPLACE FUNCTION return_token() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    UPDATE queues SET tokens = tokens + 1 WHERE id = OLD.queue AND starts_per_minute IS NOT NULL;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER token_returned AFTER UPDATE OF claim ON workflow_runs FOR EACH ROW
WHEN (OLD.claim IS NOT NULL AND NEW.claim IS NULL AND NEW.begun = 0 AND NEW.status = 'pending')
EXECUTE FUNCTION return_token();

-- Returns a run that precedes a run on its thread or in its sequence: the last one, if several are pending.
CREATE OR REPLACE FUNCTION run_ahead(p_run workflow_runs) RETURNS TEXT LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_id TEXT;
    v_number BIGINT;
BEGIN
    IF p_run.status = 'pending' THEN
        SELECT id INTO v_id FROM workflow_runs
        WHERE workspace_id = p_run.workspace_id AND thread_id = p_run.thread_id AND status = 'pending' AND number < p_run.number
        ORDER BY number DESC LIMIT 1;
        IF FOUND THEN
            RETURN v_id;
        END IF;
    END IF;
    SELECT id, number INTO v_id, v_number FROM workflow_runs
    WHERE workspace_id = p_run.workspace_id AND thread_id = p_run.thread_id
        AND (claim IS NOT NULL OR status IN ('running', 'waiting', 'paused'))
        AND status NOT IN ('completed', 'failed', 'cancelled')
    ORDER BY claim IS NULL, status = 'pending', number LIMIT 1;
    IF v_number <> p_run.number THEN
        RETURN v_id;
    ELSIF p_run.sequence IS NULL THEN
        RETURN NULL;
    END IF;
    IF p_run.status = 'pending' THEN
        SELECT id INTO v_id FROM workflow_runs
        WHERE workspace_id = p_run.workspace_id AND sequence = p_run.sequence AND status = 'pending' AND number < p_run.number
        ORDER BY number DESC LIMIT 1;
        IF FOUND THEN
            RETURN v_id;
        END IF;
    END IF;
    SELECT id, number INTO v_id, v_number FROM workflow_runs
    WHERE workspace_id = p_run.workspace_id AND sequence = p_run.sequence
        AND (claim IS NOT NULL OR status IN ('running', 'waiting', 'paused'))
        AND status NOT IN ('completed', 'failed', 'cancelled')
    ORDER BY claim IS NULL, status = 'pending', number LIMIT 1;
    RETURN CASE WHEN v_number <> p_run.number THEN v_id END;
END $$;

-- Locks a run that precedes another one, unless it is being changed, or does not precede it any more, and returns
-- whether it did. The lock lets it end only when it is known that the other one waits for it. Nothing waits for the lock,
-- since its holder may be frozen.
CREATE OR REPLACE FUNCTION lock_run_ahead(p_ahead TEXT, p_run workflow_runs) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM workflow_runs
    WHERE id = p_ahead AND status NOT IN ('completed', 'failed', 'cancelled')
        AND (claim IS NULL, status = 'pending', number) < (TRUE, p_run.status = 'pending', p_run.number)
    FOR SHARE SKIP LOCKED;
    RETURN FOUND;
END $$;

-- Holds a new run back at once if it has to wait. Limits are checked only if other runs are held back by them: otherwise
-- the next claim holds it back.
CREATE OR REPLACE FUNCTION hold_new_run() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    v_ahead TEXT := run_ahead(NEW);
BEGIN
    IF v_ahead IS NOT NULL THEN
        IF lock_run_ahead(v_ahead, NEW) THEN
            NEW.held_by := v_ahead;
        END IF;
    ELSIF EXISTS (
        SELECT 1 FROM workflow_runs WHERE held_by = 'limit of workspace' AND workspace_id = NEW.workspace_id
    ) AND free_runs(NEW.workspace_id) <= 0 THEN
        NEW.held_by := 'limit of workspace';
    ELSIF NEW.concurrency_key IS NOT NULL AND EXISTS (
        SELECT 1 FROM workflow_runs
        WHERE held_by = 'limit of key' AND workspace_id = NEW.workspace_id AND concurrency_key = NEW.concurrency_key
    ) AND NEW.concurrency_limit <= claimed_runs(NEW.workspace_id, NEW.concurrency_key) THEN
        NEW.held_by := 'limit of key';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER held_by_insert BEFORE INSERT ON workflow_runs FOR EACH ROW
WHEN (NEW.due_at IS NOT NULL AND NEW.claim IS NULL) EXECUTE FUNCTION hold_new_run();

-- Holds a run back if the limit of its workspace, or of its concurrency key, has been reached, and returns whether it has.
CREATE OR REPLACE FUNCTION hold_if_full(p_number BIGINT, p_workspace TEXT, p_key TEXT, p_limit BIGINT) RETURNS BOOLEAN
LANGUAGE plpgsql AS $$
DECLARE
    v_reason TEXT;
BEGIN
    IF p_limit IS NULL OR claimed_runs(p_workspace, p_key) < p_limit THEN
        RETURN FALSE;
    END IF;
    v_reason := CASE WHEN p_key IS NULL THEN 'limit of workspace' ELSE 'limit of key' END;
    UPDATE workflow_runs SET held_by = v_reason WHERE number = p_number AND held_by IS DISTINCT FROM v_reason;
    RETURN TRUE;
END $$;

-- Returns the number of claimed runs of a workspace, or of those that have a concurrency key.
CREATE OR REPLACE FUNCTION claimed_runs(p_workspace TEXT, p_key TEXT) RETURNS BIGINT LANGUAGE plpgsql AS $$
BEGIN
    IF p_key IS NULL THEN
        RETURN (SELECT count(*) FROM workflow_runs WHERE workspace_id = p_workspace AND claim IS NOT NULL);
    END IF;
    RETURN (
        SELECT count(*) FROM workflow_runs
        WHERE workspace_id = p_workspace AND concurrency_key = p_key AND claim IS NOT NULL
    );
END $$;

-- Returns the number of runs of a workspace that its limit permits to claim in addition; very many without a limit.
CREATE OR REPLACE FUNCTION free_runs(p_workspace TEXT) RETURNS BIGINT LANGUAGE plpgsql AS $$
BEGIN
    RETURN coalesce((SELECT max_running FROM workspaces WHERE id = p_workspace), 2147483647)
        - claimed_runs(p_workspace, NULL);
END $$;

-- Returns the groups of held runs whose workspaces are not full, each by the number of one of its runs: the runs that have
-- their workspace, queue, version, priority, and whether they have begun, in common. Considers the next `p_count`
-- workspaces that have held runs, after those of the last claim of this session, so that none is passed over for ever.
CREATE OR REPLACE FUNCTION groups_held_by_workspace(p_count BIGINT) RETURNS BIGINT[] LANGUAGE plpgsql AS $$
DECLARE
    v_first TEXT := coalesce(current_setting('statewright.held_workspace', TRUE), '');
    v_last TEXT := v_first;
    v_workspace TEXT;
    v_has_wrapped BOOLEAN := FALSE;
    v_count BIGINT := 0;
    v_run RECORD;
    v_numbers BIGINT[] := '{}';
BEGIN
    WHILE v_count < p_count LOOP
        SELECT workspace_id INTO v_workspace FROM workflow_runs
        WHERE held_by = 'limit of workspace' AND workspace_id > v_last
        ORDER BY workspace_id LIMIT 1;
        IF v_workspace IS NULL THEN
            EXIT WHEN v_has_wrapped;
            v_has_wrapped := TRUE;
            v_last := '';
            CONTINUE;
        END IF;
        EXIT WHEN v_has_wrapped AND v_workspace COLLATE "C" > v_first;
        v_count := v_count + 1;
        v_last := v_workspace;
        CONTINUE WHEN free_runs(v_workspace) <= 0;
        SELECT '' AS queue, '' AS graph_version, 0::BIGINT AS priority, 0::BIGINT AS begun, 0::BIGINT AS number INTO v_run;
        LOOP
            SELECT queue, graph_version, priority, begun, number INTO v_run FROM workflow_runs
            WHERE held_by = 'limit of workspace' AND workspace_id = v_workspace
                AND (queue, graph_version, priority, begun)
                    > (v_run.queue, v_run.graph_version, v_run.priority, v_run.begun)
            ORDER BY queue, graph_version, priority, begun LIMIT 1;
            EXIT WHEN NOT FOUND;
            v_numbers := v_numbers || v_run.number;
        END LOOP;
    END LOOP;
    PERFORM set_config('statewright.held_workspace', v_last, FALSE);
    RETURN v_numbers;
END $$;

-- Returns the same for concurrency keys, of whose held runs some may be claimed. Their limit is a part of the groups.
CREATE OR REPLACE FUNCTION groups_held_by_key(p_count BIGINT) RETURNS BIGINT[] LANGUAGE plpgsql AS $$
DECLARE
    v_first_workspace TEXT := coalesce(current_setting('statewright.held_key_workspace', TRUE), '');
    v_first_key TEXT := coalesce(current_setting('statewright.held_key', TRUE), '');
    v_last_workspace TEXT := v_first_workspace;
    v_last_key TEXT := v_first_key;
    v_workspace TEXT;
    v_key TEXT;
    v_has_wrapped BOOLEAN := FALSE;
    v_count BIGINT := 0;
    v_run RECORD;
    v_numbers BIGINT[] := '{}';
BEGIN
    WHILE v_count < p_count LOOP
        SELECT workspace_id, concurrency_key INTO v_workspace, v_key FROM workflow_runs
        WHERE held_by = 'limit of key' AND (workspace_id, concurrency_key) > (v_last_workspace, v_last_key)
        ORDER BY workspace_id, concurrency_key LIMIT 1;
        IF v_workspace IS NULL THEN
            EXIT WHEN v_has_wrapped;
            v_has_wrapped := TRUE;
            v_last_workspace := '';
            v_last_key := '';
            CONTINUE;
        END IF;
        EXIT WHEN v_has_wrapped AND (v_workspace COLLATE "C", v_key COLLATE "C") > (v_first_workspace, v_first_key);
        v_count := v_count + 1;
        v_last_workspace := v_workspace;
        v_last_key := v_key;
        SELECT claimed_runs(v_workspace, v_key) + 1 AS concurrency_limit, '' AS queue, '' AS graph_version,
            0::BIGINT AS priority, 0::BIGINT AS begun, 0::BIGINT AS number INTO v_run;
        LOOP
            SELECT concurrency_limit, queue, graph_version, priority, begun, number INTO v_run FROM workflow_runs
            WHERE held_by = 'limit of key' AND workspace_id = v_workspace AND concurrency_key = v_key
                AND (concurrency_limit, queue, graph_version, priority, begun)
                    > (v_run.concurrency_limit, v_run.queue, v_run.graph_version, v_run.priority, v_run.begun)
            ORDER BY concurrency_limit, queue, graph_version, priority, begun LIMIT 1;
            EXIT WHEN NOT FOUND;
            v_numbers := v_numbers || v_run.number;
        END LOOP;
    END LOOP;
    PERFORM set_config('statewright.held_key_workspace', v_last_workspace, FALSE);
    PERFORM set_config('statewright.held_key', v_last_key, FALSE);
    RETURN v_numbers;
END $$;

-- Returns the queues, the versions of graphs and the priorities that have unclaimed runs which nothing holds back, of
-- those that have begun and of others: each with one search of the index, however many runs it has.
CREATE OR REPLACE FUNCTION due_groups() RETURNS TABLE (queue TEXT, graph_version TEXT, priority BIGINT, begun BIGINT)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    queue := '';
    LOOP
        SELECT next.queue, next.graph_version, next.priority, next.begun INTO queue, graph_version, priority, begun
        FROM workflow_runs AS next
        WHERE next.due_at IS NOT NULL AND next.claim IS NULL AND next.held_by IS NULL
            AND (next.queue, next.graph_version, next.priority, next.begun)
                > (due_groups.queue, coalesce(due_groups.graph_version, ''), coalesce(due_groups.priority, 0),
                   coalesce(due_groups.begun, 0))
        ORDER BY next.queue, next.graph_version, next.priority, next.begun LIMIT 1;
        EXIT WHEN queue IS NULL;
        RETURN NEXT;
    END LOOP;
END $$;

-- Returns how many starts a queue permits now: see `Queue.tokens_at`, which has the same rules. `greatest` ignores NULL.
CREATE OR REPLACE FUNCTION tokens_of(p_queue queues, p_now BIGINT) RETURNS DOUBLE PRECISION LANGUAGE sql IMMUTABLE AS $$
    SELECT least(
        greatest(1, p_queue.starts_per_minute / 60.0),
        p_queue.tokens + (p_queue.starts_per_minute / 60000000.0) * CASE
            WHEN p_queue.filled_at > p_now + 60000000 THEN 60000000  -- the clock was set back
            ELSE greatest(0, p_now - p_queue.filled_at)
        END
    )
$$;

-- Returns whether a worker serves a version of a graph in a queue. `p_versions` are the versions that it does not serve:
-- those that follow the name of a queue and a line feed, in this queue only.
CREATE OR REPLACE FUNCTION serves_version(p_queue TEXT, p_version TEXT, p_versions TEXT[]) RETURNS BOOLEAN
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_version <> ALL (p_versions) AND p_queue || chr(10) || p_version <> ALL (p_versions)
$$;

-- Returns whether a claim takes runs of a group: its worker serves them, and their queue is neither full nor spent.
CREATE OR REPLACE FUNCTION may_claim_group(
    p_queue TEXT, p_version TEXT, p_begun BIGINT, p_queues TEXT[], p_versions TEXT[], p_full TEXT[], p_spent TEXT[]
) RETURNS BOOLEAN LANGUAGE sql IMMUTABLE AS $$
    SELECT (p_queues IS NULL OR p_queue = ANY (p_queues)) AND serves_version(p_queue, p_version, p_versions)
        AND p_queue <> ALL (p_full) AND (p_begun = 1 OR p_queue <> ALL (p_spent))
$$;

-- Claims due runs together if none of them has a limit, a sequence, or a run before it on its thread, so that none has to
-- wait for another one. Returns them in their order; none if that is not so, or if another transaction is changing one.
CREATE OR REPLACE FUNCTION claim_together(p_worker TEXT, p_claims TEXT[], p_now BIGINT, p_numbers BIGINT[])
RETURNS SETOF workflow_runs LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(p_numbers) > (
        SELECT count(*) FROM (
            SELECT FROM workflow_runs
            -- `IS TRUE` keeps the planner from searching all due runs for these, when there seem to be few.
            WHERE number = ANY (p_numbers) AND (due_at <= p_now AND claim IS NULL AND held_by IS NULL) IS TRUE
            FOR UPDATE SKIP LOCKED
        ) AS locked
    ) THEN
        RETURN;
    END IF;
    -- A statement of its own, so that it sees what was committed before the locks.
    IF EXISTS (
        SELECT FROM workflow_runs AS due
        WHERE number = ANY (p_numbers) AND (
            concurrency_key IS NOT NULL
            OR sequence IS NOT NULL
            OR EXISTS (SELECT FROM workspaces WHERE id = due.workspace_id AND max_running IS NOT NULL)
            OR EXISTS (
                SELECT FROM queues
                WHERE id = due.queue AND (max_running IS NOT NULL OR starts_per_minute IS NOT NULL)
            )
            OR (due.status = 'pending' AND (
                SELECT number FROM workflow_runs
                WHERE workspace_id = due.workspace_id AND thread_id = due.thread_id AND status = 'pending'
                    AND number < due.number
                ORDER BY number DESC LIMIT 1
            ) IS NOT NULL)
            OR EXISTS (
                SELECT FROM workflow_runs
                WHERE workspace_id = due.workspace_id AND thread_id = due.thread_id AND number <> due.number
                    AND (claim IS NOT NULL OR status IN ('running', 'waiting', 'paused'))
                    AND status NOT IN ('completed', 'failed', 'cancelled')
            )
        )
    ) THEN
        RETURN;
    END IF;
    RETURN QUERY WITH claimed AS (
        UPDATE workflow_runs SET claim = p_claims[array_position(p_numbers, number)], worker_id = p_worker, due_at = NULL,
            version = version + 1
        WHERE number = ANY (p_numbers)
        RETURNING *
    )
    SELECT * FROM claimed ORDER BY array_position(p_numbers, number);
END $$;

-- Claims due runs for a worker, in the order of their priorities and due times. `p_claims` has the ids of the claims.
-- `p_queues` are the queues that the worker serves, or NULL for all; for `p_versions` see `serves_version`.
-- The caller excludes other claims by a lock. Runs that are held back by limits are claimed, too, once these permit it: those
-- of a few limits, and of many if there are too few others. After many runs that have to wait, a claim ends early, so that
-- others can claim meanwhile.
CREATE OR REPLACE FUNCTION claim_runs(
    p_worker TEXT, p_claims TEXT[], p_now BIGINT, p_queues TEXT[], p_versions TEXT[]
) RETURNS SETOF workflow_runs LANGUAGE plpgsql AS $$
DECLARE
    v_limit INTEGER := coalesce(array_length(p_claims, 1), 0);
    v_count INTEGER := 0;
    v_skipped BIGINT[] := '{}';
    v_full TEXT[] := '{}';     -- queues that have reached their limit of claimed runs
    v_spent TEXT[] := '{}';    -- queues that have no token for another start
    v_numbers BIGINT[];
    v_left BIGINT[];           -- those of them that have not been claimed together
    v_number BIGINT;
    v_run workflow_runs%ROWTYPE;
    v_queue queues%ROWTYPE;
    v_ahead TEXT;
    v_max BIGINT;
    v_examined INTEGER := 0;
    v_wanted INTEGER;
    v_in_workspaces BIGINT[];  -- groups of runs that are held by the limits of workspaces
    v_with_keys BIGINT[];      -- groups of runs that are held by the limits of keys
    v_considers_many BOOLEAN := FALSE;
BEGIN
    IF v_limit > 0 THEN
        v_in_workspaces := groups_held_by_workspace(10);
        v_with_keys := groups_held_by_key(10);
    END IF;
    WHILE v_count < v_limit LOOP
        -- Each time twice as many, because the index still has the runs that were held back meanwhile.
        v_wanted := v_limit - v_count + v_examined;
        v_numbers := ARRAY(
            SELECT candidate.number FROM (
                SELECT due.number, due_group.priority, due.due_at, due.id FROM due_groups() AS due_group
                CROSS JOIN LATERAL (
                    SELECT number, due_at, id FROM workflow_runs
                    WHERE queue = due_group.queue AND graph_version = due_group.graph_version
                        AND priority = due_group.priority AND begun = due_group.begun AND due_at <= p_now
                        AND due_at IS NOT NULL AND claim IS NULL AND held_by IS NULL AND number <> ALL (v_skipped)
                    ORDER BY due_at, id LIMIT v_wanted
                ) AS due
                WHERE may_claim_group(
                    due_group.queue, due_group.graph_version, due_group.begun, p_queues, p_versions, v_full, v_spent
                )
                UNION ALL
                SELECT due.number, held_group.priority, due.due_at, due.id
                FROM unnest(v_in_workspaces) AS head
                JOIN workflow_runs AS held_group ON held_group.number = head
                CROSS JOIN LATERAL (SELECT free_runs(held_group.workspace_id) AS count) AS free
                CROSS JOIN LATERAL (
                    SELECT number, due_at, id FROM workflow_runs
                    WHERE held_by = 'limit of workspace' AND workspace_id = held_group.workspace_id
                        AND queue = held_group.queue AND graph_version = held_group.graph_version
                        AND priority = held_group.priority AND begun = held_group.begun
                        AND due_at <= p_now AND number <> ALL (v_skipped)
                    ORDER BY due_at, id
                    LIMIT CASE WHEN free.count > 0 THEN least(free.count, v_limit - v_count) + v_examined ELSE 0 END
                ) AS due
                WHERE may_claim_group(
                    held_group.queue, held_group.graph_version, held_group.begun, p_queues, p_versions, v_full, v_spent
                )
                UNION ALL
                SELECT due.number, held_group.priority, due.due_at, due.id
                FROM unnest(v_with_keys) AS head
                JOIN workflow_runs AS held_group ON held_group.number = head
                CROSS JOIN LATERAL (
                    SELECT held_group.concurrency_limit
                        - claimed_runs(held_group.workspace_id, held_group.concurrency_key) AS count
                ) AS free
                CROSS JOIN LATERAL (
                    SELECT number, due_at, id FROM workflow_runs
                    WHERE held_by = 'limit of key' AND workspace_id = held_group.workspace_id
                        AND concurrency_key = held_group.concurrency_key
                        AND concurrency_limit = held_group.concurrency_limit
                        AND queue = held_group.queue AND graph_version = held_group.graph_version
                        AND priority = held_group.priority AND begun = held_group.begun
                        AND due_at <= p_now AND number <> ALL (v_skipped)
                    ORDER BY due_at, id
                    LIMIT CASE WHEN free.count > 0 THEN least(free.count, v_limit - v_count) + v_examined ELSE 0 END
                ) AS due
                WHERE may_claim_group(
                    held_group.queue, held_group.graph_version, held_group.begun, p_queues, p_versions, v_full, v_spent
                )
            ) AS candidate
            ORDER BY candidate.priority, candidate.due_at, candidate.id LIMIT v_wanted
        );
        EXIT WHEN v_examined > 1000;
        v_left := v_numbers;
        IF v_examined = 0 AND cardinality(v_numbers) > 1 THEN
            RETURN QUERY SELECT * FROM claim_together(p_worker, p_claims, p_now, v_numbers);
            GET DIAGNOSTICS v_count = ROW_COUNT;
            IF v_count > 0 THEN
                v_left := '{}';
            END IF;
        END IF;
        v_examined := v_examined + cardinality(v_numbers);
        FOREACH v_number IN ARRAY v_left LOOP
            EXIT WHEN v_count = v_limit;
            -- A run that another transaction is changing is left to the next claim.
            SELECT * INTO v_run FROM workflow_runs
            WHERE number = v_number AND due_at <= p_now AND claim IS NULL
                AND (held_by IS NULL OR held_by IN ('limit of workspace', 'limit of key'))
            FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                v_skipped := v_skipped || v_number;
                CONTINUE;
            END IF;
            v_ahead := run_ahead(v_run);
            IF v_ahead IS NOT NULL THEN
                IF lock_run_ahead(v_ahead, v_run) THEN
                    UPDATE workflow_runs SET held_by = v_ahead WHERE number = v_number;
                ELSE
                    v_skipped := v_skipped || v_number;
                END IF;
                CONTINUE;
            END IF;
            SELECT max_running INTO v_max FROM workspaces WHERE id = v_run.workspace_id;
            CONTINUE WHEN v_max IS NOT NULL AND hold_if_full(v_number, v_run.workspace_id, NULL, v_max);
            CONTINUE WHEN v_run.concurrency_key IS NOT NULL
                AND hold_if_full(v_number, v_run.workspace_id, v_run.concurrency_key, v_run.concurrency_limit);
            SELECT * INTO v_queue FROM queues WHERE id = v_run.queue;
            -- Without a limit, the claimed runs of the queue are not counted: there may be thousands.
            IF v_queue.max_running IS NOT NULL AND v_queue.max_running <= (
                SELECT count(*) FROM workflow_runs WHERE queue = v_run.queue AND claim IS NOT NULL
            ) THEN
                v_full := v_full || v_run.queue;
                CONTINUE;
            END IF;
            IF v_run.begun = 0 AND v_queue.starts_per_minute IS NOT NULL THEN
                -- A queue that another transaction is changing starts no runs in this claim. To wait for the lock would
                -- stop all claims if its holder is frozen.
                SELECT * INTO v_queue FROM queues WHERE id = v_run.queue FOR UPDATE SKIP LOCKED;
                IF NOT FOUND OR tokens_of(v_queue, p_now) < 1 THEN
                    v_spent := v_spent || v_run.queue;
                    CONTINUE;
                END IF;
                UPDATE queues SET tokens = tokens_of(v_queue, p_now) - 1,
                    filled_at = CASE WHEN filled_at BETWEEN p_now AND p_now + 60000000 THEN filled_at ELSE p_now END
                WHERE id = v_run.queue;
            END IF;
            v_count := v_count + 1;
            UPDATE workflow_runs SET claim = p_claims[v_count], worker_id = p_worker, due_at = NULL,
                held_by = NULL, version = version + 1
            WHERE number = v_number
            RETURNING * INTO v_run;
            RETURN NEXT v_run;
        END LOOP;
        -- If these were all, others can only be among the held runs.
        CONTINUE WHEN cardinality(v_numbers) = v_wanted OR (v_numbers <> '{}' AND v_in_workspaces || v_with_keys <> '{}');
        EXIT WHEN v_considers_many;
        v_considers_many := TRUE;
        v_in_workspaces := groups_held_by_workspace(1000);
        v_with_keys := groups_held_by_key(1000);
        EXIT WHEN v_in_workspaces || v_with_keys = '{}';
    END LOOP;
END $$;

-- Returns the earliest time at which a run may be claimed by a worker that serves these queues, and not these versions.
CREATE OR REPLACE FUNCTION next_due(p_queues TEXT[], p_versions TEXT[]) RETURNS BIGINT LANGUAGE sql STABLE AS $$
    SELECT min(first.due_at) FROM due_groups() AS due_group
    CROSS JOIN LATERAL (
        SELECT due_at FROM workflow_runs
        WHERE queue = due_group.queue AND graph_version = due_group.graph_version
            AND priority = due_group.priority AND begun = due_group.begun
            AND due_at IS NOT NULL AND claim IS NULL AND held_by IS NULL
        ORDER BY due_at LIMIT 1
    ) AS first
    WHERE (p_queues IS NULL OR due_group.queue = ANY (p_queues))
        AND serves_version(due_group.queue, due_group.graph_version, p_versions)
$$;
