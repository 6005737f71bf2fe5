# Helpers shared by every script; sourced, never run.
set -euo pipefail

# A shell in the background ignores Ctrl-C, and so would every program under test.
[[ ${SIGNALS_RESET:-} ]] || SIGNALS_RESET=1 exec env --default-signal "$0" "$@"

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TARGET=${CARGO_TARGET_DIR:-$ROOT/target}
VENV=$ROOT/.tools/venv

# Incremental state only pays for a tree that is built again.
[[ -z ${CI:-} ]] || export CARGO_INCREMENTAL=0

# What is said goes to stderr: stdout belongs to what a script answers.
say() { printf '\n== %s\n' "$*" >&2; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
lack() { printf '%s: not installed here. Please use: %s\n' "${0##*/}" "$*" >&2; exit 2; }

# need_apt PACKAGE...
need_apt() {
  local package missing=()
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  local install=(apt-get install -y --no-install-recommends "${missing[@]}")
  { ((EUID == 0)) && command -v apt-get >/dev/null; } || lack "${install[*]}"
  say "Installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  # Another installation may be under way, and a fresh machine has no package lists yet.
  local patient=(-qq -o DPkg::Lock::Timeout=300)
  # The lists of packages have a lock of their own, for which nobody waits; several services may be started at once.
  { flock 9 && apt-get "${patient[@]}" update 9>&- && "${install[@]}" "${patient[@]}" 9>&-; } 9>"${TMPDIR:-/tmp}/lockwright-apt.lock" >&2
}

# need_command COMMAND PACKAGE: whoever has the command by other means than Debian's package keeps it.
need_command() { command -v "$1" >/dev/null || need_apt "$2"; }

# Two dependencies compile C, and that of etcd protocol buffers, with their standard definitions.
need_rust() {
  command -v cargo >/dev/null || lack 'the installer at https://rustup.rs (Rust 1.91 or newer)'
  need_command cc gcc
  need_command protoc protobuf-compiler
  [[ ${PROTOC_INCLUDE:-} || -f $(dirname "$(realpath "$(command -v protoc)")")/../include/google/protobuf/descriptor.proto ]] ||
    need_apt libprotobuf-dev
}

# need_rust_component NAME: a minimal installation by rustup leaves clippy and rustfmt out.
need_rust_component() { cargo "$1" --version >/dev/null 2>&1 || rustup component add "$1" || lack "rustup component add $1"; }

# published COMMAND...: runs it, and what cargo builds meanwhile names no folder of this machine: the sources of a panic are those of
# `lockwright/` or of a crate. What others get is built by this.
published() {
  local home=${CARGO_HOME:-$HOME/.cargo} flags crates
  # Crates that are not here yet have no folder to be named.
  [[ -d $home/registry/src ]] || cargo fetch --quiet --locked --manifest-path "$ROOT/Cargo.toml"
  # Of several that fit the last one counts. A folder may have spaces in its name, which RUSTFLAGS would take apart.
  read -ra flags <<<"${RUSTFLAGS:-}"
  flags+=("--remap-path-prefix=$ROOT=lockwright" "--remap-path-prefix=$TARGET=target")
  for crates in "$home"/registry/src/*; do flags+=("--remap-path-prefix=$crates=crates"); done
  local -x CARGO_ENCODED_RUSTFLAGS
  CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${flags[*]}")
  "$@"
}

# names_no_folder FILE...: fails where one of them, which others get, names a folder of this machine.
names_no_folder() {
  local guilty
  guilty=$(grep -lF -e "$ROOT/" -e "${CARGO_HOME:-$HOME/.cargo}/" "$@") || (($? == 1)) || die "$* cannot be read"
  [[ ! $guilty ]] || die "names folders of this machine: $guilty"
}

# cargo_for TARGET COMMAND [ARGUMENT...]: cargo for another target, whose standard library need not be here.
cargo_for() {
  local target=$1 build_std=()
  if [[ ! -d $(rustc --print target-libdir --target "$target") ]]; then
    say "No standard library here for $target (rustup target add $target): building it with Debian's compiler"
    need_apt rustc-web rust-web-src
    local -x RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1
    build_std=(-Zbuild-std=std,panic_abort)
    if [[ $target == wasm32-* ]]; then
      need_apt lld-22
      local -x CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-ld-22
      # Its sorting alone is 20 KB otherwise.
      build_std+=(-Zbuild-std-features=optimize_for_size)
    fi
  fi
  # Two compilers that share a folder would each undo what the other built.
  CARGO_TARGET_DIR=$TARGET/cross cargo "${build_std[@]}" "$2" --target "$target" "${@:3}"
}

# wasm_pack ARGUMENT...: makes components, or JavaScript, of modules for WebAssembly, and composes components.
wasm_pack() { cargo run --quiet --locked --manifest-path "$ROOT/bindings-wasm/Cargo.toml" -p lockwright-pack -- "$@"; }

# need_venv [FOLDER REQUIREMENTS]: Python tools of the tree's own, so that nothing is installed into the system's Python.
need_venv() {
  need_command python3 python3
  python3 -c 'import ensurepip' 2>/dev/null || need_apt python3-venv
  local venv=${1:-$VENV} wanted=${2:-$ROOT/scripts/requirements.txt}
  local installed=$venv/requirements.txt
  if ! cmp -s "$wanted" "$installed"; then
    say "Installing what ${wanted#"$ROOT/"} names"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted" >&2
    cp "$wanted" "$installed"
  fi
  export VIRTUAL_ENV=$venv PATH=$venv/bin:$PATH
}

# Where an extension is loaded Python itself is what it calls: nothing is linked with its library.
export PYO3_BUILD_EXTENSION_MODULE=1

# build_all: every crate in one build: a build by package would choose other features and compile the dependencies again.
build_all() { cargo build --locked --workspace --lib --bins --tests; }

# replace FILE PLACE: not over what is there: whoever has that loaded would crash.
replace() {
  cp "$1" "$2.new"
  mv "$2.new" "$2"
}

# python_site: where the venv's Python has its packages, without the lockwright of an earlier build: that might be found first, and
# pip cannot uninstall what it did not install.
python_site() {
  local site
  site=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  rm -rf "$site"/lockwright "$site/lockwright.pth" "$site"/lockwright-*.dist-info
  echo "$site"
}

# python_build: the Python package as the tests use it, from the native library that cargo built, for the venv's Python.
python_build() {
  local package=$ROOT/bindings-python/python site version
  replace "$TARGET/debug/lib_lockwright.so" "$package/lockwright/_lockwright.abi3.so"
  site=$(python_site)
  echo "$package" >"$site/lockwright.pth"
  version=$(python -c 'import lockwright; print(lockwright.__version__)')
  mkdir "$site/lockwright-$version.dist-info"
  printf 'Metadata-Version: 2.1\nName: lockwright\nVersion: %s\n' "$version" >"$site/lockwright-$version.dist-info/METADATA"
}

# need_node [FOLDER]: Node 20 or newer, and in FOLDER what its lock file names.
need_node() {
  need_command node nodejs
  need_command npm npm
  local major
  major=$(node --print 'process.versions.node.split(".")[0]')
  ((major >= 20)) || lack "Node 20 or newer; this is $(node --version)"
  [[ ! ${1:-} ]] || npm_packages "$1"
}

npm_packages() {
  local installed=$1/node_modules/.installed
  if ! cmp -s "$1/package-lock.json" "$installed"; then
    say "Installing what ${1#"$ROOT/"}/package-lock.json names"
    npm ci --prefix "$1" --no-audit --no-fund --loglevel=error >&2
    cp "$1/package-lock.json" "$installed"
  fi
}

# node_build PROFILE [PLACE]: the npm package as the tests use it, from the native library that cargo built.
node_build() {
  npm run --silent --prefix "$ROOT/bindings-node" build
  replace "$TARGET/$1/liblockwright_node.so" "${2:-$ROOT/bindings-node/lockwright.node}"
}

# A JDK of version 17 or later, and Maven, for what is fetched and compiled for the JVM.
need_jvm() {
  command -v javac >/dev/null || need_apt openjdk-17-jdk-headless
  need_command mvn maven
}

# jdks: the folders of the JDKs that are here, each with its version before it, the newest last.
jdks() {
  local javac home
  for javac in "$(command -v javac)" /usr/lib/jvm/*/bin/javac; do
    home=$(realpath "$javac")
    home=${home%/bin/javac}
    echo "$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$home/release") $home"
  done | sort -nu
}

# jvm_build PROFILE: the Java classes as the tests use them, with the native libraries that cargo built, and the shim.
jvm_build() {
  local package=$ROOT/bindings-jvm version home
  mvn -q -B -f "$package/pom.xml" -Dnative.skip=true -Dnative.folder="$TARGET/$1" test-compile \
    dependency:build-classpath -Dmdep.outputFile="$package/target/classpath" >&2
  javac -nowarn -cp "$package/target/classes:$(<"$package/target/classpath")" -d "$package/target/shim" \
    "$ROOT"/conformance/shims/jvm/{InHand,Peer,Shim}.java >&2
  rm -f "$package/ffm/target/home"
  read -r version home < <(jdks | tail -1)
  ((version >= 22)) || return 0
  JAVA_HOME=$home mvn -q -B -f "$package/ffm/pom.xml" -Dnative.skip=true -Dnative.folder="$TARGET/$1" test-compile >&2
  echo "$home" >"$package/ffm/target/home"
}

# PHP and its headers, which the extension is made from with libclang; every build of the whole workspace needs them. And what
# its tests and its example stand beside.
need_php() {
  need_apt php-cli php-dev php-fpm php-xml php-redis php-symfony-lock php-illuminate-cache libclang-dev
  need_command phpunit phpunit
}

# What PHP needs for the two databases.
need_php_databases() {
  need_php
  php -r 'exit(extension_loaded("pdo_pgsql") && extension_loaded("pdo_mysql") ? 0 : 1);' 2>/dev/null || need_apt php-pgsql php-mysql
}

# Every face as the conformance suite plays it, and the suite.
need_faces() {
  need_rust
  need_venv
  need_node "$ROOT/bindings-node"
  need_jvm
  need_php
  build_all
  python_build
  node_build debug
  jvm_build debug
}

# maven ARGUMENT...: with a local repository of the tree's own, in which only what was built here is ours.
maven() { mvn -q -B -ntp -Dmaven.repo.local="$ROOT/.tools/maven" "$@"; }
