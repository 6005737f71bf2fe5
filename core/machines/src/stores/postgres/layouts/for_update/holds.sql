-- Says that the holder lives, for so many milliseconds.
SELECT set_config('idle_in_transaction_session_timeout', $2::bigint::text, true)
