//! The tools that the specification names as agents, and that `attache connect` configures (`docs/connect.md`).

use serde::{Deserialize, Serialize};

use crate::UnknownName;

/// A tool with an agent. The name is also the `scope.agent_id` of its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames, strum::Display)]
#[strum(serialize_all = "kebab-case", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum Tool {
    /// Claude Code of Anthropic.
    ClaudeCode,
    /// Codex of OpenAI.
    Codex,
    /// Cursor of Anysphere.
    Cursor,
    /// Gemini CLI of Google.
    GeminiCli,
    /// GitHub Copilot CLI.
    GithubCopilot,
    /// opencode of SST.
    Opencode,
}

impl Tool {
    /// All tools, in alphabetical order.
    pub const ALL: [Self; 6] =
        [Self::ClaudeCode, Self::Codex, Self::Cursor, Self::GeminiCli, Self::GithubCopilot, Self::Opencode];

    /// The name in commands, events, requests and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The name of the product, for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::Cursor => "Cursor",
            Self::GeminiCli => "Gemini CLI",
            Self::GithubCopilot => "GitHub Copilot CLI",
            Self::Opencode => "opencode",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tool;

    #[test]
    fn a_tool_is_read_by_the_name_that_its_events_carry() {
        for tool in Tool::ALL {
            assert_eq!(tool.as_str().parse(), Ok(tool));
            assert_eq!(serde_json::to_value(tool).unwrap(), tool.as_str());
        }
        assert!(
            "Claude Code".parse::<Tool>().unwrap_err().to_string().contains("claude-code, codex, cursor, gemini-cli")
        );
    }
}
