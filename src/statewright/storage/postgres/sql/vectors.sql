-- Statements of vectors.py, each after its name. DIMS stands for the number of dimensions.

-- is_available
-- Whether the type exists in the search path, and whether the extension could be created.
SELECT to_regtype('vector') IS NOT NULL,
    EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector')
    AND NOT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'vector');

-- create_extension
CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public;

-- has_table
SELECT to_regclass('embeddings_DIMS') IS NOT NULL, to_regclass('embeddings_DIMS_hnsw') IS NOT NULL;

-- create_table
CREATE TABLE IF NOT EXISTS embeddings_DIMS (
    item      BIGINT NOT NULL REFERENCES vectors ON DELETE CASCADE,
    embedding public.vector(DIMS) NOT NULL
);

-- create_item_index
CREATE INDEX IF NOT EXISTS embeddings_DIMS_item ON embeddings_DIMS (item);

-- create_hnsw
CREATE INDEX IF NOT EXISTS embeddings_DIMS_hnsw ON embeddings_DIMS USING hnsw (embedding public.vector_ip_ops);

-- create_hnsw_half
CREATE INDEX IF NOT EXISTS embeddings_DIMS_hnsw ON embeddings_DIMS
USING hnsw ((embedding::public.halfvec(DIMS)) public.halfvec_ip_ops);

-- put
INSERT INTO embeddings_DIMS (item, embedding)
SELECT ?, embedding::public.vector FROM unnest(?::TEXT[]) AS embedding;

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
SELECT item, (embedding OPERATOR(public.<#>) :query::TEXT::public.vector) + 0 AS distance
FROM embeddings_DIMS JOIN items ON id = item
WHERE namespace >= :first AND (:beyond::TEXT IS NULL OR namespace < :beyond) AND (until IS NULL OR until > :now)
    AND (:pattern::TEXT IS NULL OR namespace ~ :pattern)
ORDER BY distance LIMIT :count;

-- nearest_hnsw
SELECT item, embedding OPERATOR(public.<#>) :query::TEXT::public.vector AS distance
FROM embeddings_DIMS JOIN items ON id = item
WHERE namespace >= :first AND (:beyond::TEXT IS NULL OR namespace < :beyond) AND (until IS NULL OR until > :now)
    AND (:pattern::TEXT IS NULL OR namespace ~ :pattern)
ORDER BY distance LIMIT :count;

-- nearest_hnsw_half
SELECT item,
    embedding::public.halfvec(DIMS) OPERATOR(public.<#>) :query::TEXT::public.halfvec(DIMS) AS distance
FROM embeddings_DIMS JOIN items ON id = item
WHERE namespace >= :first AND (:beyond::TEXT IS NULL OR namespace < :beyond) AND (until IS NULL OR until > :now)
    AND (:pattern::TEXT IS NULL OR namespace ~ :pattern)
ORDER BY distance LIMIT :count;

-- iterate
-- A search reads on until it has enough items, also if many of its index are outside of the namespaces.
SELECT set_config('hnsw.iterative_scan', 'strict_order', TRUE),
    set_config('hnsw.ef_search', least(greatest(:count::BIGINT, 40), 1000)::TEXT, TRUE);

-- parts
SELECT item, parts FROM vectors WHERE item = ANY (?::BIGINT[]);
