-- The file of one embedded store. Times are microseconds of the host's boot clock; which boot (and time namespace) they
-- belong to stands in `clock`, since that clock starts again at every boot.

CREATE TABLE locks (
    key TEXT NOT NULL PRIMARY KEY,
    -- The highest fencing token ever set aside.
    last INTEGER NOT NULL,
    -- How many rows of `waiters` have this key: an uncontended request need not look there.
    waiting INTEGER NOT NULL,
    clock TEXT NOT NULL,
    -- When the holder's part was last written; `expires - changed` is the length of the lease then granted.
    changed INTEGER NOT NULL,
    -- The holder: attempt, inbox and claim in one text; null when nobody holds it. The next six are null with it.
    owner TEXT,
    since INTEGER,
    expires INTEGER,
    first INTEGER,
    claimed INTEGER,
    card TEXT,
    -- Pid namespace, pid and start time of the holder's process, or empty where they are not known; behind a space the same
    -- of a process that answers for it after its death, where there is one.
    process TEXT,
    -- A lease on another clock, as seen from the clock `seen_by`: which lease it was, and when it ends if it stays
    -- unchanged.
    seen_by TEXT,
    seen_expires INTEGER,
    seen_until INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE waiters (
    key TEXT NOT NULL,
    seq INTEGER NOT NULL,
    attempt TEXT NOT NULL,
    inbox INTEGER NOT NULL,
    -- Milliseconds.
    claim INTEGER NOT NULL,
    card TEXT NOT NULL,
    clock TEXT NOT NULL,
    process TEXT NOT NULL,
    -- Of a shared record: how much it wants, and whether nobody may overtake it.
    units INTEGER NOT NULL DEFAULT 1,
    in_order INTEGER NOT NULL DEFAULT 1,
    -- Of a lock: how urgent it is, and since when it waits.
    rank INTEGER NOT NULL DEFAULT 0,
    since INTEGER NOT NULL,
    PRIMARY KEY (key, seq),
    UNIQUE (key, attempt)
) STRICT, WITHOUT ROWID;

-- Most have no rank, and none of these are here.
CREATE INDEX ranked_waiters ON waiters (key, rank, seq) WHERE rank > 0;

-- Read/write locks and semaphores. No key is here and in `locks`, unless nobody uses one of the two.
CREATE TABLE shared (
    key TEXT NOT NULL PRIMARY KEY,
    -- `rwlock` or `semaphore`.
    primitive TEXT NOT NULL,
    -- How many units there are, whether somebody said so by resizing it, and how many are held.
    capacity INTEGER NOT NULL,
    resized INTEGER NOT NULL,
    used INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    -- The highest fencing token ever granted.
    last INTEGER NOT NULL,
    -- No lease ends before this, on the clock of whoever wrote it at `changed`.
    soonest INTEGER NOT NULL,
    clock TEXT NOT NULL,
    changed INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE holders (
    key TEXT NOT NULL,
    attempt TEXT NOT NULL,
    -- Attempt, inbox and claim in one text.
    owner TEXT NOT NULL,
    units INTEGER NOT NULL,
    token INTEGER NOT NULL,
    since INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    claimed INTEGER NOT NULL,
    card TEXT NOT NULL,
    -- These as in `locks`.
    process TEXT NOT NULL,
    clock TEXT NOT NULL,
    changed INTEGER NOT NULL,
    seen_by TEXT,
    seen_expires INTEGER,
    seen_until INTEGER,
    PRIMARY KEY (key, attempt)
) STRICT, WITHOUT ROWID;

-- Latches and barriers. No key is here and in `locks` or `shared`, unless nobody uses one of them.
CREATE TABLE gates (
    key TEXT NOT NULL PRIMARY KEY,
    -- `latch` or `barrier`.
    kind TEXT NOT NULL,
    -- Of a latch, how many are still to come; of a barrier, how many parties there are.
    count INTEGER NOT NULL,
    -- Of a barrier, the last generation that passed.
    generation INTEGER NOT NULL,
    -- When it goes unless somebody uses it before, on the clock of whoever wrote it.
    goes INTEGER NOT NULL,
    clock TEXT NOT NULL,
    -- The same by the wall clock, in microseconds since 1970: what it goes by on other clocks.
    goes_wall INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX gates_by_end ON gates (goes_wall);

-- Who waits for a latch.
CREATE TABLE latch_waiters (
    key TEXT NOT NULL,
    attempt TEXT NOT NULL,
    inbox INTEGER NOT NULL,
    PRIMARY KEY (key, attempt)
) STRICT, WITHOUT ROWID;

-- Who waits for a barrier, in the order of arrival.
CREATE TABLE places (
    key TEXT NOT NULL,
    seq INTEGER NOT NULL,
    attempt TEXT NOT NULL,
    inbox INTEGER NOT NULL,
    -- When the place ends, as `goes` and `goes_wall` above.
    ends INTEGER NOT NULL,
    clock TEXT NOT NULL,
    ends_wall INTEGER NOT NULL,
    -- For how many microseconds what becomes of it is remembered.
    memory INTEGER NOT NULL,
    PRIMARY KEY (key, seq),
    UNIQUE (key, attempt)
) STRICT, WITHOUT ROWID;

CREATE INDEX places_by_end ON places (key, clock, ends, ends_wall);

-- Attempts that changed a latch, passed a barrier or gave up there, and until when, on which clock, that is remembered.
CREATE TABLE remembered (
    key TEXT NOT NULL,
    attempt TEXT NOT NULL,
    until INTEGER NOT NULL,
    clock TEXT NOT NULL,
    -- How it passed: index and generation as one number; null for everything else.
    passage INTEGER,
    PRIMARY KEY (key, attempt)
) STRICT, WITHOUT ROWID;

CREATE INDEX remembered_by_end ON remembered (key, clock, until);

CREATE TABLE meta (
    -- The highest token of any lock whose row was removed: a row made anew goes on from there.
    last INTEGER NOT NULL,
    -- Up to which key idle rows were looked for.
    swept TEXT NOT NULL,
    -- The same of shared records.
    swept_shared TEXT NOT NULL
) STRICT;

INSERT INTO meta (last, swept, swept_shared) VALUES (0, '', '');
