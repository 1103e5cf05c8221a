CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_at REAL NOT NULL
);
CREATE TABLE event (
    run_id INTEGER NOT NULL REFERENCES run (id),
    seq INTEGER NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    lease INTEGER NOT NULL,
    PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;
CREATE TABLE progress (
    run_id INTEGER PRIMARY KEY REFERENCES run (id),
    body TEXT NOT NULL
);
CREATE TABLE summary (
    run_id INTEGER PRIMARY KEY REFERENCES run (id),
    seq INTEGER NOT NULL,
    body TEXT NOT NULL
);
CREATE TABLE lease (
    run_id INTEGER PRIMARY KEY REFERENCES run (id),
    number INTEGER NOT NULL,
    owner TEXT NOT NULL,
    until REAL
);
CREATE TABLE request (
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES run (id),
    kind TEXT NOT NULL,
    by TEXT NOT NULL,
    at REAL NOT NULL,
    options TEXT NOT NULL,
    answered_at REAL
);
CREATE INDEX request_open ON request (run_id) WHERE answered_at IS NULL;
