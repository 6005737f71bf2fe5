-- Has this connection give back the lock, and tells whether it had it.
SELECT COALESCE(RELEASE_LOCK(?1), 0)
