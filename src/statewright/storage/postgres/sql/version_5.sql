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
