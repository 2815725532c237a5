//! The examples at the end of the help of each command. A test parses each example.

/// The examples of one command.
pub struct Examples {
    /// The words of the command, without `attache`.
    pub command: &'static str,
    /// Lines as typed into a shell; text after ` # ` is a comment.
    pub lines: &'static [&'static str],
    /// A remark below the examples.
    pub note: &'static str,
}

const fn of(command: &'static str, lines: &'static [&'static str]) -> Examples {
    Examples { command, lines, note: "" }
}

/// The examples of all commands.
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
    of("demo", &["attache demo --auto", "attache demo --url https://attache.example.com"]),
    of("serve", &["attache serve", "attache serve --config /etc/attache/config.toml"]),
    of("check", &["attache check --config /etc/attache/config.toml"]),
    of("doctor", &["attache doctor", "attache doctor --deep --json"]),
    Examples {
        command: "health",
        lines: &["attache health", "attache health --config /etc/attache/config.toml"],
        note: "Exit codes: 0 the server is ready; 7 no server answers; 75 it is not ready, with the reasons.",
    },
    Examples {
        command: "top",
        lines: &[
            "attache top # the server of this computer, through the operator's socket",
            "attache top --all --sort crashes",
            "attache top --url https://ops.example.com --token-file operator.token",
            "attache top --once --json | jq '.trees[].tree.children[] | select(.restarts > 0)'",
        ],
        note: "ATTACHE_OPERATOR_TOKEN contains the token for --url unless a file is given. An operator with the role look only looks.",
    },
    of("migrate", &["attache migrate --dry-run", "attache migrate"]),
    of("openapi", &["attache openapi > openapi.json", "attache openapi --ops"]),
    of("backup create", &["attache backup create backup-of-today"]),
    of("backup verify", &["attache backup verify backup-of-today"]),
    of("backup restore", &["attache backup restore backup-of-today"]),
    of("keys list", &["attache keys list"]),
    of("keys rotate", &["attache keys rotate"]),
    of(
        "completions",
        &[
            "attache completions bash > ~/.local/share/bash-completion/completions/attache",
            "attache completions fish > ~/.config/fish/completions/attache.fish",
            "attache completions zsh > \"${fpath[1]}/_attache\"",
        ],
    ),
    of("manual", &["attache manual | man -l -"]),
    of("admin account create", &["attache admin account create --email ada@example.com"]),
    of("admin account close", &["attache admin account close --email ada@example.com"]),
    of(
        "admin account list",
        &["attache admin account list", "attache admin account list --email ada@example.com --json"],
    ),
    of(
        "admin balance add",
        &["attache admin balance add --email ada@example.com --cents 500 --reason \"paid by invoice 7\""],
    ),
    of("admin balance list", &["attache admin balance list --email ada@example.com"]),
    of("admin plan set", &["attache admin plan set --email ada@example.com --plan PRO"]),
    of("admin session create", &["attache admin session create --email ada@example.com --reason \"ticket 7\""]),
    of("admin session list", &["attache admin session list", "attache admin session list --email ada@example.com"]),
    of(
        "admin session end",
        &["attache admin session end 019b76da-a800-7274-8acf-2e56e162ebd9 --reason \"a lost laptop\""],
    ),
    of(
        "admin machine add",
        &["attache admin machine add --user-cuid tz4a98xxat96iws9zmbrgj3a \
             --machine-uuid 019b76da-a800-7274-8acf-2e56e162ebd9"],
    ),
    of(
        "admin machine attach",
        &["attache admin machine attach --machine-uuid 019b76da-a800-7274-8acf-2e56e162ebd9 \
             --account tz4a98xxat96iws9zmbrgj3a"],
    ),
    of("admin machine list", &["attache admin machine list", "attache admin machine list --email ada@example.com"]),
    of("admin machine remove", &["attache admin machine remove 019b76da-a800-7274-8acf-2e56e162ebd9"]),
    of("admin agent list", &["attache admin agent list --email ada@example.com"]),
    of("admin agent revoke", &["attache admin agent revoke 019b76da-a800-7274-8acf-2e56e162ebd9"]),
    of(
        "admin api-key create",
        &["attache admin api-key create --email ada@example.com --name \"backup job\" --scope search"],
    ),
    of("admin api-key list", &["attache admin api-key list --email ada@example.com"]),
    of("admin api-key revoke", &["attache admin api-key revoke 019b76da-a800-7274-8acf-2e56e162ebd9"]),
    of("admin person list", &["attache admin person list", "attache admin person list --email ada@example.com --json"]),
    of("admin batch list", &["attache admin batch list"]),
    of("admin batch cancel", &["attache admin batch cancel 019b76da-a800-7274-8acf-2e56e162ebd9"]),
    of("admin mail list", &["attache admin mail list"]),
    of("admin mail retry", &["attache admin mail retry 019b76da-a800-7274-8acf-2e56e162ebd9"]),
    of("admin mail give-up", &["attache admin mail give-up 019b76da-a800-7274-8acf-2e56e162ebd9"]),
    of("admin webhook list", &["attache admin webhook list"]),
    of(
        "admin webhook disable",
        &["attache admin webhook disable 019b76da-a800-7274-8acf-2e56e162ebd9 --reason \"it floods the proxy\""],
    ),
    of("admin webhook enable", &["attache admin webhook enable 019b76da-a800-7274-8acf-2e56e162ebd9"]),
    of("admin held list", &["attache admin held list --reason unknown_event_type"]),
    of("admin held show", &["attache admin held show 019b76da-a800-7274-8acf-2e56e162ebd9"]),
    of(
        "admin held release",
        &[
            "attache admin held release 019b76da-a800-7274-8acf-2e56e162ebd9",
            "attache admin held release --held-for unknown_event_type --reason \"the type is registered now\"",
        ],
    ),
    of("admin held discard", &["attache admin held discard 019b76da-a800-7274-8acf-2e56e162ebd9"]),
    of("admin act list", &["attache admin act list", "attache admin act list --act session_create --json"]),
    of("admin act show", &["attache admin act show 019b76da-a800-7274-8acf-2e56e162ebd9"]),
    of("admin act verify", &["attache admin act verify"]),
    of("config show", &["attache config show", "attache config show actors.ordered"]),
    of(
        "config set",
        &[
            "attache config set actors.ordered.queue_max 1000 --for 30m --reason \"events of an import\"",
            "attache config set actors.ordered.queue_max 100 --dry-run",
        ],
    ),
    of(
        "config reload",
        &["attache config reload --reason \"a smaller queue\"", "attache config reload --dry-run --reason preview"],
    ),
    of("config unset", &["attache config unset actors.ordered.queue_max"]),
    of("config overrides", &["attache config overrides"]),
    of("admin node list", &["attache admin node list"]),
    of(
        "admin node drain",
        &[
            "attache admin node drain --reason \"a new kernel\"",
            "attache admin node drain node-2 --reason \"a new kernel\"",
        ],
    ),
    of("admin node undrain", &["attache admin node undrain --reason \"the kernel is new\""]),
    of("admin node actors", &["attache admin node actors", "attache admin node actors node-2"]),
    of(
        "admin node restart-actor",
        &[
            "attache admin node restart-actor mail --reason \"it hangs\"",
            "attache admin node restart-actor mail --kill --reason \"it hangs\"",
        ],
    ),
    of(
        "admin actor crashed",
        &["attache admin actor crashed", "attache admin actor crashed --request 019b76da-a800-7274-8acf-2e56e162ebd9"],
    ),
    of(
        "admin tap",
        &[
            "attache admin tap --outcome held --reason \"why are events held\"",
            "attache admin tap --for 60s --one-in 100 --json --reason \"who sends so much\"",
        ],
    ),
    of("admin actor show", &["attache admin actor show batches 019b76da-a800-7274-8acf-2e56e162ebd9"]),
    of(
        "admin actor quarantine",
        &[
            "attache admin actor quarantine batches 019b76da-a800-7274-8acf-2e56e162ebd9 --for 1h --reason \"a look at it\"",
        ],
    ),
    of(
        "admin actor release",
        &["attache admin actor release batches 019b76da-a800-7274-8acf-2e56e162ebd9 --reason \"the page is gone\""],
    ),
    of(
        "admin actor restart",
        &["attache admin actor restart batches 019b76da-a800-7274-8acf-2e56e162ebd9 --reason \"its row was mended\""],
    ),
    of(
        "admin pause",
        &[
            "attache admin pause intake --for 30m --reason \"the log is being moved\"",
            "attache admin pause intake --lane llm --reason \"a loop of an agent\"",
        ],
    ),
    of("admin resume", &["attache admin resume intake --reason \"the log is moved\""]),
    of("admin pauses", &["attache admin pauses"]),
    of("admin token create", &["attache admin token create desk --role operate"]),
    of("admin log epoch", &["attache admin log epoch --reason \"restored the backup of Monday\""]),
];
