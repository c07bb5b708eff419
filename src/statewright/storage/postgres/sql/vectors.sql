-- Statements of vectors.py, each after its name. DIMS stands for the number of dimensions, TABLES for the schema of the
-- tables, and PGVECTOR for the schema of the extension. Both are named, because the search path may have other schemas
-- with tables of Statewright, and need not have that of the extension.

-- schemas
-- The schemas of the extension, if it exists and may be used, and of the tables; whether the extension can be created.
SELECT
    (SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace AS schemas ON schemas.oid = extnamespace
        WHERE extname = 'vector' AND has_schema_privilege(schemas.oid, 'USAGE')),
    (SELECT quote_ident(nspname) FROM pg_class JOIN pg_namespace AS schemas ON schemas.oid = relnamespace
        WHERE pg_class.oid = to_regclass('vectors')),
    EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector')
    AND NOT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'vector');

-- create_extension
CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public;

-- state_of_table
-- Whether the table and its HNSW index exist; whether the user may read the table, and write to it if he may write to
-- `vectors`; and whether he may embed what others have stored. The last two are NULL if there is no table.
SELECT to_regclass(:table) IS NOT NULL, to_regclass(:table || '_hnsw') IS NOT NULL,
    has_table_privilege(to_regclass(:table), 'SELECT')
    AND (has_table_privilege(to_regclass(:table), 'INSERT') OR NOT has_table_privilege('vectors', 'INSERT')),
    has_table_privilege(to_regclass(:table), 'INSERT') AND has_table_privilege('vectors', 'UPDATE');

-- create_table
CREATE TABLE TABLES.embeddings_DIMS (
    item      BIGINT NOT NULL REFERENCES TABLES.vectors ON DELETE CASCADE,
    embedding PGVECTOR.vector(DIMS) NOT NULL
);

-- unmark
-- A restored database may have rows that are marked, although the table was not restored.
UPDATE vectors SET embedded = FALSE WHERE dims = DIMS AND embedded;

-- create_item_index
CREATE INDEX embeddings_DIMS_item ON TABLES.embeddings_DIMS (item);

-- create_hnsw
CREATE INDEX embeddings_DIMS_hnsw ON TABLES.embeddings_DIMS USING hnsw (embedding PGVECTOR.vector_ip_ops);

-- create_hnsw_half
CREATE INDEX embeddings_DIMS_hnsw ON TABLES.embeddings_DIMS
USING hnsw ((embedding::PGVECTOR.halfvec(DIMS)) PGVECTOR.halfvec_ip_ops);

-- put
INSERT INTO TABLES.embeddings_DIMS (item, embedding)
SELECT ?, embedding::PGVECTOR.vector FROM unnest(?::TEXT[]) AS embedding;

-- mark
UPDATE vectors SET embedded = TRUE WHERE item = ?;

-- left
-- Vectors that are not in the table yet.
SELECT item, parts FROM vectors WHERE NOT embedded AND dims = :dims ORDER BY item LIMIT 500 FOR UPDATE;

-- others
-- The namespaces of items that have to be compared in the process, or have other dimensions.
SELECT id, namespace, dims, parts FROM items JOIN vectors ON item = id
WHERE (NOT embedded OR dims < :dims OR dims > :dims)
    AND namespace >= :first AND (:beyond::TEXT IS NULL OR namespace < :beyond) AND (until IS NULL OR until > :now);

-- nearest
-- The sum keeps an index from being used, whose result would not be exact.
SELECT item, (embedding OPERATOR(PGVECTOR.<#>) :query::TEXT::PGVECTOR.vector) + 0 AS distance
FROM TABLES.embeddings_DIMS JOIN items ON id = item
WHERE namespace >= :first AND (:beyond::TEXT IS NULL OR namespace < :beyond) AND (until IS NULL OR until > :now)
    AND (:pattern::TEXT IS NULL OR namespace ~ :pattern)
ORDER BY distance LIMIT :count;

-- nearest_hnsw
SELECT item, embedding OPERATOR(PGVECTOR.<#>) :query::TEXT::PGVECTOR.vector AS distance
FROM TABLES.embeddings_DIMS JOIN items ON id = item
WHERE namespace >= :first AND (:beyond::TEXT IS NULL OR namespace < :beyond) AND (until IS NULL OR until > :now)
    AND (:pattern::TEXT IS NULL OR namespace ~ :pattern)
ORDER BY distance LIMIT :count;

-- nearest_hnsw_half
SELECT item,
    embedding::PGVECTOR.halfvec(DIMS) OPERATOR(PGVECTOR.<#>) :query::TEXT::PGVECTOR.halfvec(DIMS) AS distance
FROM TABLES.embeddings_DIMS JOIN items ON id = item
WHERE namespace >= :first AND (:beyond::TEXT IS NULL OR namespace < :beyond) AND (until IS NULL OR until > :now)
    AND (:pattern::TEXT IS NULL OR namespace ~ :pattern)
ORDER BY distance LIMIT :count;

-- iterate
-- A search reads on until it has enough items, also if many of its index are outside of the namespaces.
SELECT set_config('hnsw.iterative_scan', 'strict_order', TRUE),
    set_config('hnsw.ef_search', least(greatest(:count::BIGINT, 40), 1000)::TEXT, TRUE);

-- scan
-- An exact search reads all vectors, which sessions do not do otherwise: see `connection.py`.
SELECT set_config('enable_seqscan', 'on', TRUE);

-- parts
SELECT item, parts FROM vectors WHERE item = ANY (?::BIGINT[]);
