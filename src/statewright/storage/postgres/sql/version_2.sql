-- Whether vectors are also in the type of pgvector: see `vectors.py`.
ALTER TABLE vectors ADD COLUMN embedded BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX vectors_left ON vectors (item) WHERE NOT embedded;
CREATE INDEX vectors_by_dims ON vectors (dims);

-- The writing sessions of processes, and the last transaction that each has committed: see `writer.py`.
CREATE TABLE writers (
    id     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    since  BIGINT NOT NULL,    -- microseconds since 1970
    number BIGINT NOT NULL,    -- of the last transaction
    ended  BOOLEAN NOT NULL    -- TRUE if no further transaction may be committed
);
CREATE INDEX writers_by_time ON writers (since);

-- Returns the id of a new writer. Removes the previous one of this process, and those that others have left behind.
CREATE FUNCTION add_writer(p_previous BIGINT) RETURNS BIGINT LANGUAGE sql AS $$
    DELETE FROM writers WHERE id = p_previous OR since < current_microseconds() - 7 * 86400000000;
    INSERT INTO writers (since, number, ended) VALUES (current_microseconds(), 0, FALSE) RETURNING id;
$$;

-- Records that a transaction is about to be committed, unless it has written nothing.
CREATE FUNCTION record_transaction(p_writer BIGINT, p_number BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
        UPDATE writers SET number = p_number WHERE id = p_writer AND NOT ended;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the writer has ended' USING ERRCODE = 'SW007';
        END IF;
    END IF;
END $$;
