-- What only one node of a fleet may do at a time, such as the one connection of a bot: by name, who does it, until when.
CREATE TABLE lease (
    name   TEXT    NOT NULL PRIMARY KEY,
    holder TEXT    NOT NULL,
    until  INTEGER NOT NULL
) WITHOUT ROWID;
