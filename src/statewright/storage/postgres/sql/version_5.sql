-- Claims find runs that are held back by limits in groups, by the indexes: see `claims.sql`.
DROP FUNCTION IF EXISTS release_from_limits(BIGINT, TEXT[], TEXT[]);
CREATE INDEX runs_held_in_workspace
    ON workflow_runs (workspace_id, queue, graph_version, priority, begun, due_at, id)
    WHERE held_by = 'limit of workspace';
CREATE INDEX runs_held_with_key
    ON workflow_runs (workspace_id, concurrency_key, concurrency_limit, queue, graph_version, priority, begun, due_at, id)
    WHERE held_by = 'limit of key';

-- Runs without a limit were held back as well.
UPDATE workflow_runs SET held_by = NULL WHERE held_by = 'limit of key' AND concurrency_limit IS NULL;

-- Returns the id of a new writer. Removes the previous one of this process, and those that others have left behind.
-- The id is random. After a failover that lost the newest rows, a counted id would be given out a second time, and each of
-- two processes would take the transactions of the other for its own.
CREATE OR REPLACE FUNCTION add_writer(p_previous BIGINT) RETURNS BIGINT LANGUAGE sql AS $$
    DELETE FROM writers WHERE id = p_previous OR since < current_microseconds() - 7 * 86400000000;
    INSERT INTO writers (id, since, number, ended) OVERRIDING SYSTEM VALUE
    VALUES (
        ('x' || left(replace(gen_random_uuid()::TEXT, '-', ''), 16))::BIT(64)::BIGINT & 9223372036854775807,
        current_microseconds(), 0, FALSE
    )
    RETURNING id;
$$;

-- Records that a transaction is about to be committed, unless it has written nothing. Numbers only increase.
CREATE OR REPLACE FUNCTION record_transaction(p_writer BIGINT, p_number BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
        UPDATE writers SET number = p_number WHERE id = p_writer AND NOT ended AND number < p_number;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the writer has ended' USING ERRCODE = 'SW007';
        END IF;
    END IF;
END $$;

-- Adds results to the frontier of a checkpoint, and to the log of a run. `p_journal` has the keys of those results of
-- which only the first one counts, because it may have been seen.
CREATE OR REPLACE FUNCTION save_results(
    p_workspace TEXT, p_thread TEXT, p_namespace TEXT, p_branch TEXT, p_id BYTEA, p_journal TEXT[], p_kinds BIGINT[],
    p_keys TEXT[], p_bodies BYTEA[], p_run TEXT, p_log BYTEA, p_count BIGINT, p_owner TEXT, p_duration BIGINT,
    p_claims BOOLEAN, p_epoch BIGINT, p_gone TEXT, p_now BIGINT
) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_lease RECORD;
    v_line lines%ROWTYPE;
    v_log RECORD;
    v_head BIGINT;
    v_place BIGINT;
    v_key TEXT;
BEGIN
    v_lease := apply_lease(p_workspace, p_thread, p_owner, p_duration, p_claims, p_epoch, p_gone,
        coalesce(p_now, current_microseconds()), FALSE, FALSE);
    SELECT * INTO v_line FROM lines
    WHERE thread = v_lease.thread AND namespace = p_namespace AND branch = p_branch;
    v_head := v_line.id << 28 | v_line.head;
    v_place := CASE WHEN v_line.head_id = p_id THEN v_head ELSE find_checkpoint(v_line.id, p_id) END;
    IF v_place IS NULL THEN
        RAISE EXCEPTION 'no such checkpoint' USING ERRCODE = 'SW005';
    END IF;
    -- A claim that adds results to an earlier checkpoint is outdated, too: see `is_claim_outdated` of the leases.
    IF v_lease.has_moved OR (p_claims AND p_epoch IS NOT NULL AND v_place <> v_head) THEN
        RAISE EXCEPTION 'head moved' USING ERRCODE = 'SW001', DETAIL = v_head::TEXT;
    END IF;
    IF p_journal IS NOT NULL THEN
        SELECT key INTO v_key FROM pending WHERE place = v_place AND kind = 5 AND key = ANY (p_journal) LIMIT 1;
        IF v_key IS NOT NULL THEN
            RAISE EXCEPTION 'journal conflict' USING ERRCODE = 'SW004', DETAIL = v_key;
        END IF;
    END IF;
    IF p_kinds IS NOT NULL THEN
        PERFORM add_results(v_place, p_kinds, p_keys, p_bodies);
        IF v_place = v_head AND NOT v_line.pending THEN
            UPDATE lines SET pending = TRUE WHERE id = v_line.id;
        END IF;
    END IF;
    IF p_log IS NOT NULL THEN
        v_log := number_events(v_lease.thread, p_run, p_count);
        INSERT INTO events (place, body) VALUES (v_log.run << 28 | v_log.first, p_log);
    END IF;
END $$;
