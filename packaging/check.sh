#!/usr/bin/env bash
# Checks packages with the validators of the formats: `check.sh FOLDER PYTHON`. PYTHON has twine and cyclonedx-python-lib; a validator that is not
# installed is named on standard error.
set -euo pipefail
shopt -s nullglob
cd "$1"
python="$2"
scratch="$(mktemp --directory)"
trap 'rm -rf "$scratch"' EXIT

# FILE TOOL ARGUMENT...
valid() {
    local file="$1" tool="$2"
    shift
    if command -v "$tool" >/dev/null; then
        "$@" >"$scratch/said" 2>&1 && ! grep -q "^npm warn" "$scratch/said" || { echo "$file: $tool refuses it:" >&2; head -c 4000 "$scratch/said" >&2; exit 1; }
    else
        echo "NOT CHECKED: $file: $tool is not installed" >&2
    fi
}

packages=(*.tar.zst *.whl *.deb *.tgz *.oci.tar *.cdx.json)
[ ${#packages[@]} -gt 0 ] || { echo "$PWD: no packages" >&2; exit 1; }
for file in *.whl; do valid "$file" "$python" -m twine check --strict "$file"; done
for file in *.deb; do valid "$file" lintian --allow-root --fail-on error "$file"; done
for file in *.tgz; do valid "$file" npm pack --dry-run --offline "./$file"; done
# The copy reads each blob and compares it with its digest.
for file in *.oci.tar; do valid "$file" skopeo copy "oci-archive:$file" "dir:$scratch/image"; done
for file in *.cdx.json; do
    if grep --only-matching 'file:///[^"]*' "$file" | grep --invert-match '^file:///attache[/#]' >/dev/null; then
        echo "$file: it names a folder of the machine that built it" >&2
        exit 1
    fi
    valid "$file" "$python" -c 'import json, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
text = open(sys.argv[1], encoding="utf-8").read()
sys.exit(JsonStrictValidator(SchemaVersion.from_version(json.loads(text)["specVersion"])).validate_str(text) and "not CycloneDX")' "$file"
done
