-- SPDX-License-Identifier: Apache-2.0
-- The tables of the memory's file, read by schema.py.
CREATE TABLE record (
    id INTEGER PRIMARY KEY AUTOINCREMENT, tier INTEGER NOT NULL, kind TEXT NOT NULL, time REAL NOT NULL, begun REAL NOT NULL,
    robot TEXT NOT NULL, source TEXT NOT NULL, process TEXT NOT NULL, sender TEXT NOT NULL, door TEXT NOT NULL,
    x REAL, y REAL, room TEXT NOT NULL, visibility INTEGER NOT NULL, key TEXT,
    uid INTEGER NOT NULL UNIQUE, revoked REAL NOT NULL DEFAULT 0, text TEXT NOT NULL, data TEXT NOT NULL
);
CREATE INDEX record_time ON record (time);
CREATE INDEX record_kind ON record (kind, time);
CREATE INDEX record_tier ON record (tier, time);
CREATE INDEX record_room ON record (room, time) WHERE room <> '';
CREATE UNIQUE INDEX record_key ON record (key) WHERE key IS NOT NULL;
CREATE TABLE link (parent INTEGER NOT NULL, child INTEGER NOT NULL, PRIMARY KEY (parent, child)) WITHOUT ROWID;
CREATE INDEX link_child ON link (child, parent);
CREATE TABLE vector (id INTEGER PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE unembedded (id INTEGER PRIMARY KEY);
CREATE TABLE redo (id INTEGER PRIMARY KEY, tier INTEGER NOT NULL, parents TEXT NOT NULL);
CREATE TABLE forgotten (key TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE record_text USING fts5 (
    text, content='record', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER text_in AFTER INSERT ON record WHEN new.text <> '' BEGIN
    INSERT INTO record_text (rowid, text) VALUES (new.id, new.text);
    INSERT OR IGNORE INTO unembedded SELECT new.id WHERE new.tier > 0;
END;
CREATE TRIGGER text_out AFTER DELETE ON record WHEN old.text <> '' BEGIN
    INSERT INTO record_text (record_text, rowid, text) VALUES ('delete', old.id, old.text);
END;
CREATE TRIGGER text_new AFTER UPDATE OF text ON record WHEN old.text <> new.text BEGIN
    INSERT INTO record_text (record_text, rowid, text) SELECT 'delete', old.id, old.text WHERE old.text <> '';
    INSERT INTO record_text (rowid, text) SELECT new.id, new.text WHERE new.text <> '';
    DELETE FROM vector WHERE id = new.id;
    INSERT OR IGNORE INTO unembedded SELECT new.id WHERE new.tier > 0 AND new.text <> '';
END;
