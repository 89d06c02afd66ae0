-- Statements on tokens and on the results of commands, which both dialects understand.

-- name: add_token
INSERT INTO token (name, digest, scope, created_at, created_by, expires_at)
VALUES (:token, :digest, :scope, :created_at, :created_by, :expires_at);

-- name: token_in_force
SELECT id, expires_at FROM token WHERE name = :token AND revoked_at IS NULL;

-- name: revoke_token
UPDATE token SET revoked_at = :now, revoked_by = :by WHERE name = :token AND revoked_at IS NULL;

-- name: list_tokens
-- Newest first; the revoked and the expired ones too.
SELECT id, name, scope, created_at, created_by, expires_at, revoked_at, revoked_by
  FROM token
 ORDER BY id DESC
 LIMIT :limit;

-- name: token_of_digest
SELECT id, name, scope, created_at, created_by, expires_at, revoked_at, revoked_by
  FROM token
 WHERE digest = :digest;

-- name: request_result
SELECT result FROM request WHERE id = :id;

-- name: add_request
INSERT INTO request (id, at, result) VALUES (:id, :now, :result);

-- name: drop_requests
DELETE FROM request WHERE id IN (SELECT id FROM request WHERE at < :before ORDER BY at LIMIT :limit);
