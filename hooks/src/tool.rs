//! The coding agents whose hooks are known.

/// A coding agent. Its name is the agent kind of its events.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::Display,
    strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
pub enum Tool {
    /// Claude Code of Anthropic.
    ClaudeCode,
    /// Codex of `OpenAI`.
    Codex,
    /// Cursor.
    Cursor,
    /// Gemini CLI of Google.
    GeminiCli,
    /// Copilot CLI of GitHub.
    GithubCopilot,
    /// opencode, through a plugin.
    Opencode,
}

impl Tool {
    /// All tools, in alphabetical order.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The name in commands, files and events.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
