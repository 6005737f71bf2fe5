# Builds the peer in the folder of the script that sources this, unless it is newer than its sources; never run.
. "$(dirname "$0")/../../../scripts/lib.sh"

need_command go golang-go
cd "$(dirname "$0")"
out=$ROOT/.tools/interop/${PWD##*/}
mkdir -p "$out"

is_built() {
  local source
  for source in peer.go go.mod go.sum ../../shims/go/*.go; do
    [[ $out/peer -nt $source ]] || return 1
  done
}

is_built || go build -o "$out/peer" .
