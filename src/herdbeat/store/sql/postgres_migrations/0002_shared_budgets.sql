-- Budgets that several schedules share: of a target, or of the whole fleet (holder 0). A schedule's own is in its plan.
CREATE TABLE budget (
    scope     text   COLLATE "C" NOT NULL,
    holder_id bigint NOT NULL,
    text      text   NOT NULL,
    PRIMARY KEY (scope, holder_id)
);

-- What was kept for schedules only is kept for whoever has a budget.
ALTER TABLE spend RENAME COLUMN schedule_id TO holder_id;
ALTER TABLE spend ADD COLUMN scope text COLLATE "C" NOT NULL DEFAULT 'schedule';
ALTER TABLE spend DROP CONSTRAINT spend_pkey;
ALTER TABLE spend ADD PRIMARY KEY (scope, holder_id, day);

ALTER TABLE reservation RENAME COLUMN schedule_id TO holder_id;
ALTER TABLE reservation ADD COLUMN scope text COLLATE "C" NOT NULL DEFAULT 'schedule';
ALTER TABLE reservation DROP CONSTRAINT reservation_pkey;
ALTER TABLE reservation ADD PRIMARY KEY (run_id, scope);
