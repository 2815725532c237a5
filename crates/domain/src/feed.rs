//! Feeds: the notifications of an account as a document for feed readers (`docs/protocol/feeds.md`).

use serde_json::Value;
use uuid::Uuid;

use crate::Timestamp;
use crate::clock::date_time;
use crate::ids::UserAccountId;
use crate::webhook::{NotificationKind, hashed_id};

/// The feed of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feed {
    /// The account of the listed notifications.
    pub account: UserAccountId,
    /// The selected kinds of notification.
    pub kinds: Vec<NotificationKind>,
    /// Time of creation.
    pub created_at: Timestamp,
}

impl Feed {
    /// Id of the document. A new link does not change it, so a reader does not show the entries again.
    pub fn id(&self) -> Uuid {
        hashed_id(&format!("feed {} {}", self.account.as_str(), date_time(self.created_at)))
    }
}

/// A notification in a feed.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedEntry {
    /// Id of the notification, the same as in webhooks.
    pub notification: Uuid,
    /// The kind of notification.
    pub kind: NotificationKind,
    /// When the fact happened.
    pub created_at: Timestamp,
    /// The member `data` of its body: ids and reasons.
    pub data: Value,
}

/// The text without the characters that XML 1.0 forbids, also as references (section 2.2).
pub fn xml_text(text: &str) -> String {
    text.chars().filter(|letter| is_of_xml(*letter)).collect()
}

fn is_of_xml(letter: char) -> bool {
    match letter {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        _ => letter >= ' ',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn characters_that_xml_forbids_are_removed() {
        assert_eq!(xml_text("a\0b\u{1}c\u{b}d\u{1f}e\u{fffe}f\u{ffff}g"), "abcdefg");
        let text = "\t\n\r <&>\"' ]]> \u{7f}\u{85}é\u{d7ff}\u{e000}\u{fffd}\u{1f600}\u{10ffff}";
        assert_eq!(xml_text(text), text);
    }

    #[test]
    fn the_id_of_a_feed_is_that_of_its_account_and_creation() {
        let feed = |account: u64, millis| Feed {
            account: Rng::seeded(account).cuid2().parse().unwrap(),
            kinds: Vec::new(),
            created_at: Timestamp::from_timestamp_millis(millis).unwrap(),
        };
        let (one, other) = (1, 2);
        assert_eq!(feed(one, 1).id(), feed(one, 1).id());
        assert_ne!(feed(one, 1).id(), feed(other, 1).id());
        assert_ne!(feed(one, 1).id(), feed(one, 2).id());
    }
}
