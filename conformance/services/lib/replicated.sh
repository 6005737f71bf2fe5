# What services share that are a server and its replica; sourced, never run, after the library of that server. A script defines
#   make_replica  Makes a replica of the running server in $REPLICA, starts it there, and has commits wait for it.
#   leave         Ends the replica, which has all that was committed.
#   move_to PORT  Has the server in the current folder use this port from its next start.
#   is_replica    Whether the server in the current folder follows another one.
#   promote       Has it follow nobody.

place() { REPLICA=$FOLDER-replica PORT=$(<"$FOLDER/port"); }

# A fail-over: whoever dials the server's address finds the replica there, which may only be read for a while.
restart() {
  place
  halt KILL
  leave
  rm -rf "$FOLDER"
  mv "$REPLICA" "$FOLDER"
  echo "$PORT" >"$FOLDER/port"
  (cd "$FOLDER" && move_to "$PORT")
  launch
}

settle() {
  place
  if is_replica; then
    sleep 1
    promote
  fi
  (FOLDER=$REPLICA running) || {
    rm -rf "$REPLICA"
    make_replica
  }
}

quit() {
  place
  (FOLDER=$REPLICA && ! running || halt INT || halt KILL)
  halt TERM || halt KILL
  rm -rf "$REPLICA"
}
