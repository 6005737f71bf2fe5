#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
need_faces
"$@"
