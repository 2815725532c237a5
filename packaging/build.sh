#!/usr/bin/env bash
# Builds both programs and their packages into a folder: `make dist`. It needs network for crates, PyPI and Debian's packages, and no root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out="${1:-dist}"

# The oldest C library that the program runs with: Debian 10, Ubuntu 20.04, RHEL 8.
glibc=2.28
target="$(uname -m)-unknown-linux-gnu"
folder="${CARGO_TARGET_DIR:-target}"
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"

# zig links against stubs of an old C library. A folder per list, as for the tests.
cache="${XDG_CACHE_HOME:-$HOME/.cache}/attache/packaging-$(sha256sum packaging/requirements.txt | cut -c 1-16)"
if [ ! -e "$cache" ]; then
    rm -rf "$cache.new"
    python3 -m venv "$cache.new"
    "$cache.new/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r packaging/requirements.txt
    mv "$cache.new" "$cache"
fi
for tool in auditable cyclonedx; do
    command -v "cargo-$tool" >/dev/null || cargo install --locked "cargo-$tool"
done

# Paths of this machine are neither in panics nor in the code of C libraries.
cargo_home="${CARGO_HOME:-$HOME/.cargo}"
sysroot="$(rustc --print sysroot)"
export RUSTFLAGS="--remap-path-prefix=$PWD=/attache --remap-path-prefix=$cargo_home=/cargo --remap-path-prefix=$sysroot=/rust"
export CFLAGS="-ffile-prefix-map=$PWD=/attache -ffile-prefix-map=$cargo_home=/cargo"
export CARGO_INCREMENTAL=0
# `auditable` puts the list of crates into the program: `cargo audit bin attache`. (A program of a venv finds its modules by its path.)
build() { PATH="$cache/bin:$PATH" cargo auditable zigbuild --locked --profile "$1" --package "$2" --target "$target.$glibc"; }
build dist attache
build client attache-commands

# The list of components is written beside each manifest, so it is made in a copy.
copy="$(mktemp --directory)"
trap 'rm -rf "$copy"' EXIT
git archive HEAD | tar --extract --directory "$copy"
for crate in . crates/commands; do
    env -u RUSTFLAGS cargo cyclonedx --quiet --manifest-path "$copy/$crate/Cargo.toml" --format json --target "$target" --override-filename components
    # Crates of this repository are named by their folders.
    sed --in-place "s|$copy|/attache|g" "$copy/$crate/components.json"
done

"$cache/bin/python" packaging/dist.py "$folder/$target/dist/attache" "$folder/$target/client/attache-client" "$out" \
    --sbom "$copy/components.json" --sbom "$copy/crates/commands/components.json" \
    ${ATTACHE_SIGNING_KEY:+--sign-with "$ATTACHE_SIGNING_KEY"}
packaging/check.sh "$out" "$cache/bin/python"
