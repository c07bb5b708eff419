-- Deletes the namespaces of completed calls on a branch of a thread, and those nested in them, unless something of them
-- must be kept, which the client has to read: logs in records or segments, and states of which others are forks. Then the
-- transaction fails.
CREATE FUNCTION drop_calls(p_workspace TEXT, p_thread TEXT, p_branch TEXT, p_namespaces TEXT[]) RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
    v_line lines%ROWTYPE;
    v_first BIGINT;
    v_last BIGINT;
BEGIN
    FOR v_line IN
        SELECT lines.* FROM threads JOIN lines ON lines.thread = threads.id
        WHERE threads.workspace = p_workspace AND threads.thread_id = p_thread
            AND lines.branch = p_branch AND lines.namespace <> ''
            AND EXISTS (
                SELECT 1 FROM unnest(p_namespaces) AS dropped
                WHERE lines.namespace = dropped
                    OR starts_with(lines.namespace, dropped || '|') OR starts_with(lines.namespace, dropped || ':')
            )
    LOOP
        v_first := v_line.id << 28;
        v_last := (v_line.id + 1 << 28) - 1;
        IF EXISTS (SELECT 1 FROM segments WHERE place BETWEEN v_first AND v_last)
            OR EXISTS (SELECT 1 FROM records WHERE place BETWEEN v_first AND v_last AND events IS NOT NULL)
            OR EXISTS (
                SELECT 1 FROM lines AS other
                JOIN jumps ON jumps.place BETWEEN other.id << 28 AND (other.id + 1 << 28) - 1
                WHERE other.thread = v_line.thread AND other.namespace = v_line.namespace AND other.id <> v_line.id
                    AND jumps.parent BETWEEN v_first AND v_last
            )
        THEN
            RAISE EXCEPTION 'a call must be read before it is deleted' USING ERRCODE = 'SW008';
        END IF;
        DELETE FROM records WHERE place BETWEEN v_first AND v_last;
        DELETE FROM jumps WHERE place BETWEEN v_first AND v_last;
        DELETE FROM pending WHERE place BETWEEN v_first AND v_last;
        DELETE FROM lines WHERE id = v_line.id;
    END LOOP;
END $$;

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
