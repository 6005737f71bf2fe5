# The certificates of a service with TLS, of both sides; sourced, never run. They lie in the current folder.

certificates() {
  need_command openssl openssl
  certificate ca Lockwright -addext basicConstraints=critical,CA:TRUE -addext keyUsage=keyCertSign
  local end=(-CA ca.crt -CAkey ca.key -addext basicConstraints=critical,CA:FALSE)
  certificate server localhost "${end[@]}" -addext subjectAltName=DNS:localhost,IP:127.0.0.1
  certificate client lockwright "${end[@]}" -addext extendedKeyUsage=clientAuth
}

# certificate FILE NAME EXTENSION...: without the machine's openssl.cnf, whose extensions would contradict ours.
certificate() {
  local file=$1 name=$2
  shift 2
  openssl req -x509 -config <(printf '[req]\ndistinguished_name=name\n[name]\n') -newkey ec -pkeyopt ec_paramgen_curve:P-256 \
    -noenc -days 30 -subj "/CN=$name" -keyout "$file.key" -out "$file.crt" "$@" 2>>log
}
