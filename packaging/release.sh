#!/usr/bin/env bash
# Checks whether this commit can be released as the version of Cargo.toml, runs the tests, and tags it: `make release`. With --check it only checks.
set -euo pipefail
cd "${ATTACHE_SOURCE:-$(dirname "${BASH_SOURCE[0]}")/..}"

version="$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)"
problems=0
problem() {
    echo "not released: $1" >&2
    problems=$((problems + 1))
}

[ -z "$(git status --porcelain)" ] || problem "the working tree has changes: commit or remove them"
! git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null || problem "the tag v$version exists: set the next version in Cargo.toml"
grep -Eq "^## ${version//./\\.} – [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md || problem "CHANGELOG.md has no section \"## $version – $(date --utc +%F)\""
# FILE TEXT: each place that repeats the version.
while read -r file text; do
    grep -qF "$text" "$file" || problem "$file does not contain $text"
done <<EOF
sdk/python/pyproject.toml version = "$version"
sdk/python/src/attache_client/__init__.py __version__ = "$version"
sdk/typescript/package.json "version": "$version"
EOF
grep -A1 '^name = "attache"$' Cargo.lock | grep -qF "version = \"$version\"" || problem "Cargo.lock has another version: run cargo check"
[ "$problems" = 0 ] || exit 1
echo "this commit can be released as $version"
[ "${1:-}" != --check ] || exit 0

make test
git tag --annotate "v$version" --message "v$version"
echo "tagged v$version; \`make dist\` builds its packages"
