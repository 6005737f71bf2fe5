-- Makes the row, unless it is there.
INSERT INTO resource_lock (resource_name, owner) VALUES ($1::text, 'lockwright') ON CONFLICT DO NOTHING
