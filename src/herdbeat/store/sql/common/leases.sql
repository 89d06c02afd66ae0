-- Statements on leases that both dialects understand.

-- name: take_lease
INSERT INTO lease (name, holder, until) VALUES (:lease, :holder, :until)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
 WHERE lease.holder = excluded.holder OR lease.until <= :now;
