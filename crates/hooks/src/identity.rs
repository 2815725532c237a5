//! Ids that are equal for repeated deliveries of the same payload, and names that do not reveal a path.
//!
//! The protocol requires UUIDv7 for events and sessions, so a digest fills their random bits. Their time is the payload's, or zero if the
//! payload has none: the time of the delivery would differ the next time.

use domain::Digest;
use domain::ids::{EventId, SessionUuid};
use domain::tool::Tool;

/// Random bytes of a profile. Without them a name made from a path cannot be guessed by trying paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Salt(pub [u8; 16]);

impl Salt {
    /// A name for a folder or file: 32 hex characters.
    pub fn name(&self, kind: &str, path: &str) -> String {
        let mut name = Digest::of_parts(&[&self.0, kind.as_bytes(), b"\0", path.as_bytes()]).to_string();
        name.truncate(32);
        name
    }
}

/// The session of a tool, from the id that the tool gives it.
pub fn session(tool: Tool, id: &str) -> SessionUuid {
    uuid(0, &["session", tool.as_str(), id]).into()
}

/// An event of a tool, from `key`, which distinguishes it from the other events of the same hook in the session.
pub fn event(tool: Tool, session: &str, hook: &str, key: &str, at_ms: Option<i64>) -> EventId {
    let millis = at_ms.and_then(|at| u64::try_from(at).ok()).filter(|millis| *millis < 1 << 48).unwrap_or(0);
    uuid(millis, &["event", tool.as_str(), session, hook, key]).into()
}

/// The event of a span with these ids in hex digits. A repeated export has the same ids and times.
pub fn span(trace: &str, span: &str, at_ms: Option<i64>) -> EventId {
    uuid(at_ms.and_then(|at| u64::try_from(at).ok()).unwrap_or(0), &["span", trace, span]).into()
}

fn uuid(millis: u64, parts: &[&str]) -> uuid::Uuid {
    // The lengths distinguish ("a", "bc") from ("ab", "c").
    let text: Vec<String> = parts.iter().map(|part| format!("{}:{part}", part.len())).collect();
    let digest = Digest::of(text.concat().as_bytes());
    let mut random = [0; 10];
    random.copy_from_slice(&digest.as_bytes()[..10]);
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_of_version_7_and_depend_on_every_part() {
        let id = |tool, session, hook, key| event(tool, session, hook, key, Some(1_767_225_600_000)).to_string();
        let first = id(Tool::Codex, "s", "h", "k");
        assert_eq!(first, id(Tool::Codex, "s", "h", "k"));
        assert!(first.parse::<EventId>().is_ok() && first.starts_with("019b76da-a800-7"), "{first}");
        for other in [id(Tool::Cursor, "s", "h", "k"), id(Tool::Codex, "sh", "", "k"), id(Tool::Codex, "s", "h", "l")] {
            assert_ne!(first, other);
        }
        assert!(session(Tool::Codex, "s").to_string().parse::<SessionUuid>().is_ok());
        for at in [None, Some(-1), Some(i64::MAX)] {
            assert!(event(Tool::Codex, "s", "h", "k", at).to_string().starts_with("00000000-0000-7"));
        }
    }

    #[test]
    fn a_name_depends_on_the_salt_and_does_not_contain_the_path() {
        let name = Salt([1; 16]).name("folder", "/home/ada/project");
        assert_eq!(name.len(), 32);
        assert_ne!(name, Salt([2; 16]).name("folder", "/home/ada/project"));
        assert_ne!(name, Salt([1; 16]).name("file", "/home/ada/project"));
    }
}
