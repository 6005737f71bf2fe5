-- What the server says of itself, of this connection and of its table: names and values.
SELECT concat_ws(E'\n',
  'now:' || (extract(epoch FROM clock_timestamp()) * 1e6)::bigint,
  'version:' || current_setting('server_version'),
  'replica:' || pg_is_in_recovery(),
  'read_only:' || current_setting('default_transaction_read_only'),
  'isolation:' || current_setting('transaction_isolation'),
  'fsync:' || current_setting('fsync'),
  'synchronous_commit:' || current_setting('synchronous_commit'),
  'standbys:' || nullif(current_setting('synchronous_standby_names'), ''),
  'replicas:' || (SELECT count(*) FROM pg_stat_replication),
  'table:' || kept.oid::regclass,
  'unlogged:' || (kept.relpersistence = 'u'),
  'unique:' || (SELECT count(*) FROM pg_index AS i
                WHERE i.indrelid = kept.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
                  AND i.indkey::text = name.attnum::text),
  'collation:' || coalesce(order_by.collname, name.atttypid::regtype::text),
  'folds:' || (to_jsonb(order_by) ->> 'collisdeterministic' = 'false'),
  'denied:' || (SELECT string_agg(asked, ', ') FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS asked
                WHERE NOT has_table_privilege(kept.oid, asked)))
FROM (SELECT to_regclass('lockwright_locks') AS oid) AS ours
  LEFT JOIN pg_class AS kept USING (oid)
  LEFT JOIN pg_attribute AS name ON name.attrelid = kept.oid AND name.attname = 'key'
  LEFT JOIN pg_collation AS order_by ON order_by.oid = name.attcollation
