-- The search for words and vectors, on PostgreSQL with the extension `vector`.

-- name: postings
-- Of each token in the JSON array $1, the slots of the chunks that it is in, as an array in its binary form.
SELECT token, (
    SELECT array_send(array_agg((number & 2147483647)::int4)) FROM chunks WHERE words @@ token::tsquery
) FROM jsonb_array_elements_text($1::jsonb) token;

-- name: vectors_are_kept
SELECT to_regclass('chunk_vectors') IS NOT NULL;

-- name: count_chunks_of_set
SELECT sum(count)::bigint FROM chunk_portions WHERE chunk_set = $1;

-- name: add_vectors
INSERT INTO chunk_vectors (number, file, vector, in_graph) VALUES ($1, $2, $3::float4[]::vector, $4);

-- name: vectors_of_portions
-- The vectors of the $2 chunks from the number $1 on, as one text of bytes for each portion; null: some are erased.
-- The binary form of a vector begins with two numbers of 2 bytes.
SELECT (
    SELECT CASE WHEN count(*) = portion.count THEN
        string_agg(substring(vector_send(vector) FROM 5), ''::bytea ORDER BY number) END
    FROM chunk_vectors WHERE number >= portion.first AND number < portion.first + portion.count
) FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS portion (first, count, place)
ORDER BY portion.place;

-- name: set_vector_search
-- For this transaction: plans for these values, and how much of the graph is searched.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true),
    set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', $1::text, true);

-- name: set_graph_search
-- For this transaction: rows come in the order of the index.
SELECT set_config('enable_sort', 'off', true);

-- name: nearest
-- Vectors have the length 1, so the cosine is their inner product, of which <#> is the negative. An exact search:
-- the index is not on this expression.
SELECT number, -distance FROM (
    SELECT number, vector <#> (SELECT $3::float4[]::vector) AS distance FROM chunk_vectors
    WHERE number >= $1 AND number < $2 AND NOT (file = ANY($4::bigint[]))
    ORDER BY distance LIMIT $5
) AS found;

-- name: nearest_outside_graph
SELECT number, -distance FROM (
    SELECT number, vector <#> (SELECT $3::float4[]::vector) AS distance FROM chunk_vectors
    WHERE number >= $1 AND number < $2 AND NOT in_graph AND NOT (file = ANY($4::bigint[]))
    ORDER BY distance LIMIT $5
) AS found;

-- name: nearest_in_files
SELECT number, -distance FROM (
    SELECT number, vector <#> (SELECT $3::float4[]::vector) AS distance FROM chunk_vectors
    WHERE number >= $1 AND number < $2 AND file = ANY($4::bigint[])
    ORDER BY distance LIMIT $5
) AS found;

-- name: nearest_by_graph
SELECT number, -distance FROM (
    SELECT number, vector::vector({dimensions}) <#> (SELECT $3::float4[]::vector) AS distance FROM chunk_vectors
    WHERE in_graph AND vector_dims(vector) = {dimensions} AND number >= $1 AND number < $2
        AND NOT (file = ANY($4::bigint[]))
    ORDER BY distance LIMIT $5
) AS found;

-- name: similarities_of_chunks
SELECT number, -(vector <#> (SELECT $1::float4[]::vector)) FROM chunk_vectors
WHERE number = ANY($2::bigint[]);
