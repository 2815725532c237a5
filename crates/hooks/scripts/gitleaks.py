"""Writes src/redaction/gitleaks.toml from the configuration of gitleaks.

    python3 hooks/scripts/gitleaks.py COMMIT path/to/gitleaks/config/gitleaks.toml path/to/gitleaks/LICENSE

The header of the written file lists the changes.
"""

import sys
import tomllib
from pathlib import Path

# What must follow a secret in a repository. In commands, addresses and code other characters follow it.
FOLLOWS = (r"""(?:[\x60'"\s;]|\\[nr]|$)""", r"(?:[^\w-]|\z)", r"(?:[^a-zA-Z0-9+/]|\z)")
# Between the name of a vendor and a value.
ASSIGNMENT = "(?:=|>|:{1,3}=|"
# Covered by rules.toml or by the code, each with the reason.
LEFT_OUT = {
    "airtable-personnal-access-token": "asks for the name of the vendor; the form is in rules.toml",
    "aws-amazon-bedrock-api-key-short-lived": "fits the beginning only; the form is in rules.toml",
    "azure-ad-client-secret": "includes what is before and after; the form is in rules.toml",
    "curl-auth-header": "headers are read wherever they are",
    "curl-auth-user": "read by rules.toml",
    "facebook-access-token": "the pattern fits many numbers",
    "grafana-cloud-api-token": "fits names of functions; the prefix is in rules.toml",
    "huggingface-access-token": "fits names of variables; the form is in rules.toml",
    "jwt": "rules.toml has a pattern that also fits tokens without claims",
    "private-key": "rules.toml has a pattern that also fits a key that is cut",
    "sidekiq-sensitive-url": "passwords of all URLs are removed",
    "slack-legacy-workspace-token": "read by rules.toml",
    "sourcegraph-access-token": "fits each commit; the prefix is in rules.toml",
    "twilio-api-key": "read by rules.toml",
    "vault-service-token": "fits identifiers of code; the prefix is in rules.toml",
}

HEADER = """\
# Forms of secrets, from gitleaks (https://github.com/gitleaks/gitleaks), commit {commit}, `config/gitleaks.toml`.
# Written by hooks/scripts/gitleaks.py: do not edit. Members: see rules.toml.
#
# Changes: what must follow a secret is not asked for. Rules that need the name of a vendor before a value, or the path of a file, are left
# out: a value with a telling name is removed whatever its form is. Also left out:
{left_out}
#
{license}
"""


def main() -> None:
    commit, source, license_file = sys.argv[1:]
    rules = tomllib.loads(Path(source).read_text())["rules"]
    text = "\n".join(("# " + line).rstrip() for line in Path(license_file).read_text().strip().splitlines())
    written = [HEADER.format(commit=commit, left_out="\n".join(f"# {name}: {reason}" for name, reason in sorted(LEFT_OUT.items())), license=text)]
    for rule in rules:
        pattern = rule.get("regex", "")
        if not pattern or ASSIGNMENT in pattern or "path" in rule or rule["id"] in LEFT_OUT:
            continue
        lines = [
            "[[rule]]",
            f'name = "{rule["id"]}"',
            'source = "gitleaks"',
            f"keywords = [{', '.join(repr(word).replace(chr(39), chr(34)) for word in rule['keywords'])}]",
        ]
        if "entropy" in rule:
            lines.append(f"entropy = {float(rule['entropy'])}")
        for follows in FOLLOWS:
            pattern = pattern.replace(follows, "")
        lines.append(f"pattern = '''{pattern}'''")
        written.append("\n".join(lines) + "\n")
    Path(__file__).parent.parent.joinpath("src/redaction/gitleaks.toml").write_text("\n".join(written))


main()
