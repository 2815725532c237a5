//! The examples at the end of the help of each command. A test parses each example.

/// The examples of one command.
#[derive(Debug)]
pub struct Examples {
    /// The words of the command, without `attache`.
    pub command: &'static str,
    /// Lines as typed into a shell; text after ` # ` is a comment.
    pub lines: &'static [&'static str],
    /// A remark below the examples.
    pub note: &'static str,
}

/// Examples without a remark.
pub const fn of(command: &'static str, lines: &'static [&'static str]) -> Examples {
    Examples { command, lines, note: "" }
}

/// The examples of the client's commands.
pub const ALL: &[Examples] = &[
    of(
        "login",
        &["attache login --url https://attache.example.com", "attache login --scope search # a key that cannot add"],
    ),
    of("attach", &["attache attach", "attache attach --url https://attache.example.com --name \"Ada's laptop\""]),
    of(
        "connect",
        &[
            "attache connect claude-code --url https://attache.example.com",
            "attache connect codex --dry-run # show what would change",
            "attache connect cursor --scope project --no-hooks",
        ],
    ),
    of("disconnect", &["attache disconnect claude-code", "attache disconnect codex --keep-agent"]),
    of("whoami", &["attache whoami", "attache whoami --json"]),
    Examples {
        command: "status",
        lines: &["attache status", "attache status --json || echo \"not ready: $?\""],
        note: "Exit codes: 0 everything works; 5 this computer is not attached, or its key is not accepted; 7 no server answers.",
    },
    of("open", &["attache open", "attache open activity", "attache open knowledge --print"]),
    of("account", &["attache account", "attache account --json"]),
    of("usage", &["attache usage", "attache usage --as agent"]),
    of(
        "consent get",
        &[
            "attache consent get # effective level of this computer",
            "attache consent get --lane llm",
            "attache consent get --as agent # all levels of the account",
        ],
    ),
    of(
        "consent set",
        &[
            "attache consent set metadata-only",
            "attache consent set off --lane llm --reason \"not at work\"",
            "attache consent set full --as agent # all computers of the account",
        ],
    ),
    of("pause", &["attache pause # one hour, this computer", "attache pause --for 1d", "attache pause --end"]),
    of("machine register", &["attache machine register --name \"build server\""]),
    of("machine show", &["attache machine show", "attache machine show --json"]),
    of("profile list", &["attache profile list"]),
    of("profile show", &["attache profile show", "attache profile show work --json"]),
    of("profile move", &["attache profile move work --url https://attache.example.com"]),
    of("profile remove", &["attache profile remove work --yes"]),
    of(
        "activity",
        &[
            "attache activity",
            "attache activity --account --wide # of all your computers and agents, with whole ids",
            "attache activity --limit 10 --lane llm",
            "attache activity --since 2026-01-01T00:00:00Z --all --json",
        ],
    ),
    of(
        "costs",
        &["attache costs", "attache costs --days 7 --by project --as agent", "attache costs --csv > costs.csv"],
    ),
    of(
        "session list",
        &[
            "attache session list",
            "attache session list --agent codex --day 2026-01-31",
            "attache session list --wide --as agent",
        ],
    ),
    of("session show", &["attache session show 5d41402a-bc4b-2a76-b971-9d911017c592 --limit 20"]),
    of(
        "event send",
        &[
            "attache event send --type skill.invoked --payload '{\"skill\":\"review\",\"succeeded\":true}'",
            "attache event send events.jsonl",
        ],
    ),
    of("event pending", &["attache event pending", "attache event pending --drop"]),
    of("event tail", &["attache event tail", "attache event tail --lane llm --json"]),
    Examples {
        command: "verify",
        lines: &[
            "attache verify 019b76da-a800-7274-8acf-2e56e162ebd9 --out proof.json",
            "attache verify proof.json --vkey attache/log+1a2b3c4d+Ad...",
        ],
        note: "The proof of an event is also compared with the largest checkpoint that the profile has seen (log.json in its \
               folder): exit code 3 means that the log was rolled back, forked or replaced since. `attache audit watch` monitors \
               this continuously.",
    },
    of(
        "verify receipt",
        &[
            "attache verify receipt attache-receipt.json --key attache/log+1a2b3c4d+Ad...",
            "attache verify receipt attache-receipt.json --markdown description.md",
        ],
    ),
    Examples {
        command: "receipt",
        lines: &[
            "attache receipt --session 8f0c5e5e-4d8b-4a0e-9a3e-3f1f6f6c2a11 > receipt.md",
            "attache receipt --since 2026-01-31T08:00:00Z --project . --output .attache/receipt.json",
        ],
        note: "docs/protocol/receipts.md describes the file, docs/deploy/receipt.yml is a workflow that refuses a pull request without a \
               receipt that verifies.",
    },
    Examples {
        command: "audit watch",
        lines: &["attache audit watch --every 30", "attache audit watch --once --json || echo \"exit code $?\""],
        note: "The largest checkpoint is stored in the profile's folder (log.json), so each run continues where the last one \
               ended. `attache verify EVENT_ID` compares and stores it too.\n\nExit codes: 0 ended by Ctrl-C, or the log is \
               consistent (--once); 7 the server did not answer (--once); 3 the log was rolled back, forked or replaced.",
    },
    of("audit forget", &["attache audit forget"]),
    of("search", &["attache search how do bees find their way", "attache search --space recipes --limit 3 bread"]),
    of(
        "add",
        &[
            "attache add https://www.rfc-editor.org/rfc/rfc8628.html",
            "attache add notes.md --title \"Meeting of Monday\" --space work",
            "attache add ~/notes # each text file of a folder, and later only what changed",
            "attache add ~/notes --watch",
            "git log -1 | attache add -",
        ],
    ),
    of("import", &["attache import export.ndjson", "attache import - < export.ndjson"]),
    of("space create", &["attache space create recipes"]),
    of("space list", &["attache space list"]),
    of(
        "key set",
        &["attache key set", "attache admin api-key create --email ada@example.com --name laptop | attache key set"],
    ),
    of("key forget", &["attache key forget"]),
    of("agent register", &["attache agent register", "attache agent register --email ada@example.com"]),
    of("agent claim", &["attache agent claim", "attache agent claim --no-wait --json"]),
    of("agent token", &["attache agent token"]),
    of("agent revoke", &["attache agent revoke", "attache agent revoke --registration"]),
    of("agent show", &["attache agent show"]),
    Examples {
        command: "hook",
        lines: &[
            "attache hook claude-code # reads the payload from standard input",
            "attache hook codex '{\"type\":\"agent-turn-complete\"}'",
            "attache hook --status",
        ],
        note: "docs/hooks.md lists the hooks of each agent and their events.",
    },
    Examples {
        command: "otlp",
        lines: &["attache otlp --agent codex", "attache otlp --listen 127.0.0.1:0 --profile work"],
        note: "For a program with an OpenTelemetry SDK:\n  \
               OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf\n\n\
               docs/otlp.md lists the spans and their events.",
    },
    Examples {
        command: "mcp",
        lines: &["attache mcp", "attache mcp --profile work"],
        note: "For a program that starts MCP servers:\n  \
               { \"mcpServers\": { \"attache\": { \"command\": \"attache\", \"args\": [\"mcp\"] } } }",
    },
    of(
        "completions",
        &[
            "attache completions bash | sudo tee /etc/bash_completion.d/attache",
            "attache completions fish > ~/.config/fish/conf.d/attache.fish",
            "attache completions zsh > \"${fpath[1]}/_attache\"",
        ],
    ),
    of("manual", &["attache manual | man -l -"]),
];
