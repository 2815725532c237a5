//! The examples at the end of the help of each command of the server. A test parses each example.

use commands::examples::{Examples, of};

/// The examples of all commands that only this program has.
pub const ALL: &[Examples] = &[
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
    of("migrate", &["attache migrate --dry-run --rehearse", "attache migrate"]),
    of("openapi", &["attache openapi > openapi.json", "attache openapi --ops"]),
    of("backup create", &["attache backup create backup-of-today"]),
    of("backup verify", &["attache backup verify backup-of-today"]),
    of("backup restore", &["attache backup restore backup-of-today"]),
    of("keys list", &["attache keys list"]),
    of("keys rotate", &["attache keys rotate"]),
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
    of(
        "admin capacity",
        &[
            "attache admin capacity --computers 1000000",
            "attache admin capacity --computers 1000000 --events-per-day 1000 --days 30",
        ],
    ),
    of("admin log epoch", &["attache admin log epoch --reason \"restored the backup of Monday\""]),
    of("admin log parts", &["attache admin log parts"]),
    of("admin memory move", &["attache admin memory move --reason \"a server of its own\""]),
];
