-- The functions that write to threads. Each is called once in a transaction that has locked the thread before.
-- Parameters begin with `p_`, variables with `v_`. Times are microseconds since 1970.

-- The time of the database. Leases and due times are compared with it, because the clocks of workers may differ.
CREATE FUNCTION current_microseconds() RETURNS BIGINT LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT
$$;

-- Lets a transaction fail unless a statement has changed or selected the right number of rows.
CREATE FUNCTION expect_rows(p_actual BIGINT, p_expected BIGINT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    IF p_actual <> p_expected THEN
        RAISE EXCEPTION '% rows instead of %', p_actual, p_expected USING ERRCODE = 'SW100';
    END IF;
    RETURN TRUE;
END $$;

-- Checks the lease of a thread, and applies a request to it: see `checkpoint/lease.py`, which has the same rules.
--
-- `p_duration` is NULL to release the thread, `p_gone` an owner of which the client knows that it has ended. Without
-- `p_always`, a lease that lasts for more than half of its duration is not written again, which saves a write in most
-- commits. `has_moved` is TRUE if the claim is refused, because it is based on old data.
CREATE FUNCTION apply_lease(
    p_workspace TEXT, p_thread TEXT, p_owner TEXT, p_duration BIGINT, p_claims BOOLEAN, p_epoch BIGINT, p_gone TEXT,
    p_now BIGINT, p_creates BOOLEAN, p_always BOOLEAN, OUT thread BIGINT, OUT has_moved BOOLEAN
) LANGUAGE plpgsql AS $$
DECLARE
    v_old threads%ROWTYPE;
    v_is_new BOOLEAN;
BEGIN
    SELECT * INTO v_old FROM threads WHERE workspace = p_workspace AND thread_id = p_thread;
    IF p_owner IS NOT NULL AND v_old.owner IS DISTINCT FROM p_owner THEN
        IF NOT p_claims THEN
            RAISE EXCEPTION 'lease lost' USING ERRCODE = 'SW002', DETAIL = coalesce(v_old.owner, '');
        END IF;
        IF v_old.owner IS NOT NULL AND v_old.until > p_now AND v_old.owner IS DISTINCT FROM p_gone THEN
            RAISE EXCEPTION 'thread busy' USING ERRCODE = 'SW003', DETAIL = v_old.until || ' ' || v_old.owner;
        END IF;
    END IF;
    thread := v_old.id;
    has_moved := p_owner IS NOT NULL AND p_claims AND p_epoch IS NOT NULL AND v_old.epoch IS DISTINCT FROM p_epoch;
    IF has_moved OR (thread IS NULL AND NOT p_creates) THEN
        RETURN;
    END IF;
    IF thread IS NULL THEN
        INSERT INTO threads (workspace, thread_id, epoch, owner, until, changed)
        VALUES (p_workspace, p_thread, 1, CASE WHEN p_duration IS NOT NULL THEN p_owner END,
            CASE WHEN p_owner IS NOT NULL THEN p_now + p_duration END, p_now)
        RETURNING id INTO thread;
    ELSIF p_owner IS NULL THEN  -- a write that names no holder: runs that have loaded the thread must load it again
        UPDATE threads SET epoch = epoch + 1 WHERE id = thread;
    ELSE
        v_is_new := v_old.owner IS DISTINCT FROM p_owner OR p_duration IS NULL;
        IF p_always OR v_is_new OR v_old.until < p_now + p_duration / 2 THEN
            UPDATE threads SET
                epoch = epoch + CASE WHEN v_is_new OR v_old.until <= p_now THEN 1 ELSE 0 END,
                owner = CASE WHEN p_duration IS NOT NULL THEN p_owner END,
                until = p_now + p_duration,
                wanted = CASE WHEN NOT v_is_new THEN wanted END,
                changed = p_now
            WHERE id = thread;
        END IF;
    END IF;
END $$;

-- Returns the row id of a run, and the number of the first of `p_count` new events in its log.
CREATE FUNCTION number_events(p_thread BIGINT, p_run TEXT, p_count BIGINT, OUT run BIGINT, OUT first BIGINT)
LANGUAGE plpgsql AS $$
BEGIN
    IF p_count = 0 THEN
        SELECT id, next INTO run, first FROM runs WHERE thread = p_thread AND name = p_run;
    ELSE
        UPDATE runs SET next = next + p_count WHERE thread = p_thread AND name = p_run
        RETURNING id, next - p_count INTO run, first;
    END IF;
    IF run IS NULL THEN
        INSERT INTO runs (thread, name, next) VALUES (p_thread, p_run, 1 + p_count) RETURNING id, 1 INTO run, first;
    END IF;
END $$;

-- Adds to the log of a run, whose thread exists.
CREATE FUNCTION save_log(p_workspace TEXT, p_thread TEXT, p_run TEXT, p_body BYTEA, p_count BIGINT) RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
    v_log RECORD;
BEGIN
    v_log := number_events(
        (SELECT id FROM threads WHERE workspace = p_workspace AND thread_id = p_thread), p_run, p_count
    );
    INSERT INTO events (place, body) VALUES (v_log.run << 28 | v_log.first, p_body);
END $$;

-- Saves results for the frontier of a checkpoint.
CREATE FUNCTION add_results(p_place BIGINT, p_kinds BIGINT[], p_keys TEXT[], p_bodies BYTEA[]) RETURNS VOID
LANGUAGE sql AS $$
    INSERT INTO pending (place, kind, key, body)
    SELECT p_place, kind, key, body FROM unnest(p_kinds, p_keys, p_bodies) AS entry (kind, key, body)
    ON CONFLICT (place, kind, key) DO UPDATE SET body = excluded.body
$$;

-- Saves a commit. Returns its line, and the number and the size of the records there, which decide on compaction.
--
-- `p_parent` is the place of the parent if that is not the head, and `p_has_parent` FALSE if there is none. `p_consumes`
-- is 0 if results for the parent stay, 1 if its attempts (4) and retries (7) are deleted, and 2 if its tasks are done:
-- then also the journal (5), and results (0) if there are no questions (1).
CREATE FUNCTION save_commit(
    p_workspace TEXT, p_thread TEXT, p_namespace TEXT, p_branch TEXT, p_expected BYTEA, p_has_parent BOOLEAN,
    p_parent BIGINT, p_id BYTEA, p_run TEXT, p_control BYTEA, p_changes BYTEA, p_events BYTEA, p_count BIGINT,
    p_consumes BIGINT, p_kinds BIGINT[], p_keys TEXT[], p_bodies BYTEA[], p_owner TEXT, p_duration BIGINT,
    p_claims BOOLEAN, p_epoch BIGINT, p_gone TEXT, p_now BIGINT,
    OUT saved_line BIGINT, OUT record_count BIGINT, OUT record_size BIGINT
) LANGUAGE plpgsql AS $$
DECLARE
    v_lease RECORD;
    v_line lines%ROWTYPE;
    v_log RECORD;
    v_head BIGINT;
    v_place BIGINT;
    v_parent BIGINT;
BEGIN
    v_lease := apply_lease(p_workspace, p_thread, p_owner, p_duration, p_claims, p_epoch, p_gone,
        coalesce(p_now, current_microseconds()), TRUE, FALSE);
    SELECT * INTO v_line FROM lines
    WHERE thread = v_lease.thread AND namespace = p_namespace AND branch = p_branch;
    v_head := v_line.id << 28 | v_line.head;
    IF v_lease.has_moved OR v_line.head_id IS DISTINCT FROM p_expected THEN
        RAISE EXCEPTION 'head moved' USING ERRCODE = 'SW001', DETAIL = coalesce(v_head::TEXT, '');
    END IF;
    v_log := number_events(v_lease.thread, p_run, p_count);
    IF v_line.id IS NULL THEN
        INSERT INTO lines (thread, namespace, branch) VALUES (v_lease.thread, p_namespace, p_branch)
        RETURNING id INTO v_line.id;
        v_place := v_line.id << 28;
    ELSE
        v_place := v_head + 1;
        IF v_place & 268435455 = 0 THEN
            RAISE EXCEPTION 'branch full' USING ERRCODE = 'SW006';
        END IF;
    END IF;
    v_parent := CASE WHEN p_has_parent THEN coalesce(p_parent, v_head) END;
    saved_line := v_line.id;
    UPDATE lines SET head = v_place & 268435455, head_id = p_id, records = records + 1,
        size = size + octet_length(p_control) + coalesce(octet_length(p_changes), 0), pending = p_kinds IS NOT NULL
    WHERE id = v_line.id
    RETURNING records, size INTO record_count, record_size;
    INSERT INTO records (place, run, number, id, control, changes, events)
    VALUES (v_place, v_log.run, CASE WHEN p_events IS NOT NULL THEN v_log.first END, p_id, p_control, p_changes, p_events);
    IF v_parent IS DISTINCT FROM v_head THEN
        INSERT INTO jumps (place, parent) VALUES (v_place, v_parent);
    END IF;
    IF p_consumes > 0 AND (v_line.pending OR v_parent IS DISTINCT FROM v_head) THEN
        DELETE FROM pending WHERE place = v_parent AND (
            kind IN (4, 7)
            OR (kind = 5 AND p_consumes = 2)
            OR (kind = 0 AND p_consumes = 2
                AND NOT EXISTS (SELECT 1 FROM pending AS asked WHERE asked.place = v_parent AND asked.kind = 1))
        );
    END IF;
    IF p_kinds IS NOT NULL THEN
        PERFORM add_results(v_place, p_kinds, p_keys, p_bodies);
    END IF;
END $$;

-- Adds results to the frontier of a checkpoint, and to the log of a run. `p_journal` has the keys of those results of
-- which only the first one counts, because it may have been seen.
CREATE FUNCTION save_results(
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
    IF v_lease.has_moved THEN
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

-- Returns the place of a checkpoint of a line: of a record, or in a segment, whose ids have 16 bytes each.
CREATE FUNCTION find_checkpoint(p_line BIGINT, p_id BYTEA) RETURNS BIGINT LANGUAGE sql STABLE AS $$
    SELECT place FROM records WHERE place BETWEEN p_line << 28 AND (p_line + 1 << 28) - 1 AND id = p_id
    UNION ALL
    SELECT p_line << 28 | first + index FROM segments, generate_series(0, octet_length(ids) / 16 - 1) AS index
    WHERE place BETWEEN p_line << 28 AND (p_line + 1 << 28) - 1 AND position(p_id IN ids) > 0
        AND substring(ids FROM (index * 16 + 1)::INTEGER FOR 16) = p_id
    LIMIT 1
$$;

-- Claims, extends or releases the lease of a thread.
CREATE FUNCTION renew_lease(
    p_workspace TEXT, p_thread TEXT, p_owner TEXT, p_duration BIGINT, p_claims BOOLEAN, p_epoch BIGINT, p_gone TEXT,
    p_now BIGINT
) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_lease RECORD;
BEGIN
    v_lease := apply_lease(p_workspace, p_thread, p_owner, p_duration, p_claims, p_epoch, p_gone,
        coalesce(p_now, current_microseconds()), FALSE, TRUE);
    IF v_lease.has_moved THEN
        RAISE EXCEPTION 'head moved' USING ERRCODE = 'SW001', DETAIL = coalesce(
            (SELECT (id << 28 | head)::TEXT FROM lines
             WHERE thread = v_lease.thread AND namespace = '' AND branch = 'main'), '');
    END IF;
END $$;
