local key, beside, base
