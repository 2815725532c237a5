//! The coding agents of `tests/agents`, each with its own names of events and tools.

/// A coding agent, and how it is used without a person and without its maker's servers. `MODEL` stands for the URL of the model.
pub struct Agent {
    pub tool: &'static str,
    /// Its path below `node_modules`.
    pub program: &'static str,
    /// Files that a person had before.
    pub before: &'static [(&'static str, &'static str)],
    pub environment: &'static [(&'static str, &'static str)],
    /// Arguments that list the MCP servers, and a text of the list.
    pub list: (&'static [&'static str], &'static str),
    /// Arguments of a run with untrusted hooks, which records no events.
    pub untrusted: Option<&'static [&'static str]>,
    /// Arguments of runs with a prompt.
    pub prompts: &'static [&'static [&'static str]],
    /// Activity, tool and success of the events, sorted.
    pub events: &'static [&'static str],
    /// A file in which the agent keeps its own state.
    pub own: Option<&'static str>,
}

pub const CLAUDE_CODE: Agent = Agent {
    tool: "claude-code",
    program: "@anthropic-ai/claude-code/bin/claude.exe",
    before: &[(".claude/settings.json", "{\n  \"cleanupPeriodDays\": 30\n}\n")],
    environment: &[
        ("ANTHROPIC_BASE_URL", "MODEL"),
        ("ANTHROPIC_API_KEY", "none"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        // All tools are offered immediately.
        ("ENABLE_TOOL_SEARCH", "false"),
    ],
    list: (&["mcp", "list"], "Connected"),
    untrusted: None,
    prompts: &[&["-p", "Look at the harbour", "--allowedTools", "Bash,Write,mcp__attache__check_consent"]],
    events: &[
        "completed",
        "file_edited Write true",
        "prompt_submitted",
        "session_ended session",
        "session_started session",
        "tool_finished Bash false",
        "tool_finished Bash true",
        "tool_finished mcp__attache__check_consent true",
    ],
    own: Some(".claude.json"),
};

pub const CODEX: Agent = Agent {
    tool: "codex",
    program: "@openai/codex/bin/codex.js",
    before: &[(
        ".codex/config.toml",
        "model_provider = \"local\"\ncheck_for_update_on_startup = false\n\n[analytics]\nenabled = false\n\n\
         [model_providers.local]\nname = \"local\"\nbase_url = \"MODEL/v1\"\nwire_api = \"responses\"\n",
    )],
    environment: &[],
    list: (&["mcp", "list", "--json"], "\"enabled\": true"),
    untrusted: Some(&["exec", "--model=model", "--skip-git-repo-check", "Look at the harbour"]),
    // It offers patches to models that it knows, and tools of MCP servers at once to others.
    prompts: &[
        &[
            "exec",
            "--model=model",
            "--skip-git-repo-check",
            "--dangerously-bypass-hook-trust",
            "--sandbox=danger-full-access",
            "Look at the harbour",
        ],
        &[
            "exec",
            "--model=gpt-5.5",
            "--skip-git-repo-check",
            "--dangerously-bypass-hook-trust",
            "--sandbox=danger-full-access",
            "Look at the harbour",
        ],
    ],
    events: &[
        "completed",
        "completed",
        "file_edited apply_patch true",
        "prompt_submitted",
        "prompt_submitted",
        "session_started session",
        "session_started session",
        "tool_finished Bash",
        "tool_finished Bash",
        "tool_finished Bash",
        "tool_finished Bash",
        "tool_finished mcp__attache__check_consent true",
    ],
    own: None,
};

pub const GEMINI_CLI: Agent = Agent {
    tool: "gemini-cli",
    program: "@google/gemini-cli/bundle/gemini.js",
    before: &[(
        ".gemini/settings.json",
        "{\n  \"security\": { \"auth\": { \"selectedType\": \"gemini-api-key\" } },\n  \
         \"general\": { \"enableAutoUpdate\": false, \"enableAutoUpdateNotification\": false },\n  \
         \"privacy\": { \"usageStatisticsEnabled\": false }\n}\n",
    )],
    environment: &[
        ("GOOGLE_GEMINI_BASE_URL", "MODEL"),
        ("GEMINI_API_KEY", "none"),
        ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
    ],
    list: (&["mcp", "list"], "Connected"),
    untrusted: None,
    prompts: &[&["--yolo", "-p", "Look at the harbour"]],
    events: &[
        "completed",
        "file_edited write_file true",
        "prompt_submitted",
        "session_ended session",
        "session_started session",
        "tool_finished mcp_attache_check_consent true",
        "tool_finished run_shell_command false",
        "tool_finished run_shell_command true",
    ],
    own: None,
};

pub const GITHUB_COPILOT: Agent = Agent {
    tool: "github-copilot",
    program: "@github/copilot/npm-loader.js",
    before: &[(".copilot/mcp-config.json", "{\n  \"mcpServers\": {}\n}\n")],
    environment: &[
        ("COPILOT_PROVIDER_BASE_URL", "MODEL/v1"),
        ("COPILOT_MODEL", "model"),
        ("COPILOT_OFFLINE", "true"),
        ("COPILOT_AUTO_UPDATE", "false"),
    ],
    list: (&["mcp", "list"], "attache (local)"),
    untrusted: None,
    prompts: &[&["--disable-builtin-mcps", "--allow-all-tools", "-p", "Look at the harbour"]],
    events: &[
        "completed",
        "file_edited create true",
        "prompt_submitted",
        "session_ended session",
        "session_started session",
        "tool_finished attache-check_consent true",
        "tool_finished bash false",
        "tool_finished bash true",
    ],
    own: None,
};

pub const OPENCODE: Agent = Agent {
    tool: "opencode",
    program: "opencode-linux-x64-baseline/bin/opencode",
    before: &[],
    environment: &[
        (
            "OPENCODE_CONFIG_CONTENT",
            "{\"model\":\"local/model\",\"autoupdate\":false,\"share\":\"disabled\",\"provider\":{\"local\":{\
             \"npm\":\"@ai-sdk/openai-compatible\",\"options\":{\"baseURL\":\"MODEL/v1\",\"apiKey\":\"none\"},\
             \"models\":{\"model\":{}}}}}",
        ),
        ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ("npm_config_registry", "MODEL"),
    ],
    list: (&["mcp", "list"], "connected"),
    untrusted: None,
    prompts: &[&["run", "Look at the harbour"]],
    // Each message of the model is complete by itself.
    events: &[
        "completed",
        "completed",
        "completed",
        "completed",
        "completed",
        "file_edited write true",
        "prompt_submitted",
        "session_started session",
        "tool_finished attache_check_consent true",
        "tool_finished bash false",
        "tool_finished bash true",
    ],
    own: None,
};
