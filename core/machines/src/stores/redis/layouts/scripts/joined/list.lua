local kind, pattern = 'string', KEYS[1]
