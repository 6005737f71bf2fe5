local kind, pattern = 'string', ARGV[2] or KEYS[1]
