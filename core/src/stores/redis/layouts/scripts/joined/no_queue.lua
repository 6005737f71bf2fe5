local waiters = 0
