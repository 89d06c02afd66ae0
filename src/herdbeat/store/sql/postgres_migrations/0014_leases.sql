-- What only one node of a fleet may do at a time, such as the one connection of a bot: by name, who does it, until when.
-- Understood by programs of schema 5: they connect no bots.
CREATE TABLE lease (
    name   text   COLLATE "C" NOT NULL PRIMARY KEY,
    holder text   NOT NULL,
    until  bigint NOT NULL
);
