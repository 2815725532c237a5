//! Tags: words by which an account sorts its memories.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;

/// Maximum length of a tag, in characters.
pub const TAG_CHARS_MAX: usize = 50;

/// A tag: 1 to [`TAG_CHARS_MAX`] characters in lower case, trimmed, without commas and control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tag(String);

/// A text that is no tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to {TAG_CHARS_MAX} characters without commas and line breaks")]
pub struct InvalidTag;

impl Tag {
    /// The text of the tag.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Tag {
    type Err = InvalidTag;

    fn from_str(text: &str) -> Result<Self, InvalidTag> {
        let text: String = text.trim().to_lowercase().nfc().collect();
        let fits = (1..=TAG_CHARS_MAX).contains(&text.chars().count());
        let is_plain = !text.chars().any(|character| character == ',' || character.is_control());
        if fits && is_plain { Ok(Self(text)) } else { Err(InvalidTag) }
    }
}

impl TryFrom<String> for Tag {
    type Error = InvalidTag;

    fn try_from(text: String) -> Result<Self, InvalidTag> {
        text.parse()
    }
}

impl From<Tag> for String {
    fn from(tag: Tag) -> Self {
        tag.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Tags in the order in which they are stored and shown: sorted, each once.
pub fn sorted_tags(tags: impl IntoIterator<Item = Tag>) -> Vec<Tag> {
    tags.into_iter().collect::<BTreeSet<Tag>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_trimmed_in_lower_case_and_bounded() {
        let tag = |text: &str| text.parse::<Tag>();
        assert_eq!(tag("  Sea Kayaks ").unwrap().as_str(), "sea kayaks");
        assert_eq!(tag("Cafe\u{301}"), tag("CAFÉ"));
        assert!(tag(&"é".repeat(TAG_CHARS_MAX)).is_ok());
        for wrong in ["", "  ", "a,b", "a\nb", "a\0b", &"é".repeat(TAG_CHARS_MAX + 1)] {
            assert_eq!(tag(wrong), Err(InvalidTag), "{wrong:?}");
        }
        assert!(serde_json::from_str::<Tag>(r#""a,b""#).is_err());
    }

    #[test]
    fn tags_are_sorted_and_each_is_there_once() {
        let tags = ["b", "A", "a"].map(|text| text.parse().unwrap());
        assert_eq!(sorted_tags(tags).iter().map(Tag::as_str).collect::<Vec<_>>(), ["a", "b"]);
    }
}
