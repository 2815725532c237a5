//! Typed identifiers. Text becomes one of these types at the edge, so that inner code handles no `String` id.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};
use unicode_normalization::UnicodeNormalization;
use uuid::Uuid;

/// A text that is not a valid identifier; `Display` names the expected form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct InvalidId(&'static str);

/// Parses lowercase hex in the 8-4-4-4-12 layout, version 7, variant 8, 9, a or b
/// (`docs/protocol/conventions.md#identifiers`).
fn parse_uuid_v7(text: &str) -> Result<Uuid, InvalidId> {
    const WHAT: InvalidId = InvalidId("a lowercase UUIDv7");
    let hyphenated = text.len() == 36 && !text.bytes().any(|byte| byte.is_ascii_uppercase());
    let uuid = Uuid::parse_str(text).map_err(|_| WHAT)?;
    let version_7 = uuid.get_version_num() == 7 && uuid.get_variant() == uuid::Variant::RFC4122;
    if hyphenated && version_7 { Ok(uuid) } else { Err(WHAT) }
}

macro_rules! uuid_v7_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// The UUID, as the databases store it.
            pub fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        /// For ids that the server created or stored; the version is not checked.
        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                parse_uuid_v7(text).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

uuid_v7_ids! {
    /// An installation: a store and the log that belongs to it.
    InstallationId;
    /// A server process.
    NodeId;
    /// A computer.
    MachineUuid;
    /// An event, chosen by its sender.
    EventId;
    /// The receipt of a forwarded event, chosen by the statistics service.
    ReceiptId;
    /// An agent's registration, also the `id` of the agent in the account summary.
    RegistrationId;
    /// A working session on a computer, named in the scope of an event.
    SessionUuid;
    /// A person who can sign in.
    PersonId;
    /// An entry in the list of held events.
    HeldId;
    /// A session in the owner's list of signed-in browsers.
    SessionId;
    /// A queued mail.
    MailId;
    /// An API key; not its secret.
    ApiKeyId;
    /// A space of the knowledge API.
    SpaceId;
    /// A memory: a page or note of the knowledge API.
    MemoryId;
    /// A batch of URLs and notes.
    BatchId;
    /// An endpoint that an account is notified at.
    WebhookId;
    /// A rule of an account.
    RuleId;
    /// An audit link; not its secret.
    AuditLinkId;
}

macro_rules! cuid2_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            /// Accepts 2 to 32 lowercase letters and digits; CUID2 has no structure to check.
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let plain = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
                if plain && (2..=32).contains(&text.len()) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(InvalidId("a CUID2 (2 to 32 lowercase letters and digits)"))
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

cuid2_ids! {
    /// An identity on computers, linked to at most one account.
    UserCuid;
    /// An account, which owns memories, agents and attached computers.
    UserAccountId;
}

/// The identity of the installation's own events. No account is linked to it.
impl From<InstallationId> for UserCuid {
    fn from(installation: InstallationId) -> Self {
        Self(installation.0.simple().to_string())
    }
}

/// A normalised e-mail address: trimmed, NFC, lower case.
///
/// Characters that the normal form replaces by another one, such as U+212A KELVIN SIGN by `k`, are rejected: a mail server that accepts
/// them delivers to another mailbox.
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Email(String);

impl Email {
    /// The normalised address.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Email {
    /// Whether mail can be sent to the address. Mail servers and libraries do not support quoted local parts (RFC 5321,
    /// section 4.1.2), which can make an address look like another.
    pub fn is_mailable(&self) -> bool {
        !self.0.contains(['"', '\\', ' '])
    }
}

impl FromStr for Email {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let text = text.trim();
        if text.chars().any(is_replaced) {
            return Err(InvalidId("an e-mail address"));
        }
        let normal: String = text.nfc().collect::<String>().to_lowercase();
        // Private networks can have hosts without a domain.
        let plain = email_address::Options::default().without_display_text().without_domain_literal();
        match email_address::EmailAddress::parse_with_options(&normal, plain) {
            Ok(_) => Ok(Self(normal)),
            Err(_) => Err(InvalidId("an e-mail address")),
        }
    }
}

/// Whether the normal form of an address replaces the character by another one: it is neither a composition of several characters nor the
/// capital letter of the replacement.
fn is_replaced(character: char) -> bool {
    let mut composed = std::iter::once(character).nfc();
    let is_other_one = matches!((composed.next(), composed.next()), (Some(other), None) if other != character);
    let has_small = !character.to_lowercase().eq([character]);
    let is_capital = character.to_lowercase().flat_map(char::to_uppercase).eq([character]);
    is_other_one || (has_small && !is_capital)
}

/// Hides the address: it is personal data, and must not appear in logs.
impl fmt::Debug for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Email(…)")
    }
}

impl<'de> Deserialize<'de> for Email {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lowercase_version_7_uuids_are_ids() {
        assert!("019b76da-a800-7a67-8a14-94a3f41b0634".parse::<MachineUuid>().is_ok());
        for wrong in [
            "",
            "019B76DA-A800-7A67-8A14-94A3F41B0634",
            "019b76daa8007a678a1494a3f41b0634",
            "019b76da-a800-4a67-8a14-94a3f41b0634",
            "019b76da-a800-7a67-ca14-94a3f41b0634",
            "{019b76da-a800-7a67-8a14-94a3f41b0634}",
            "019b76da-a800-7a67-8a14-94a3f41b0634 ",
        ] {
            assert!(wrong.parse::<MachineUuid>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn cuids_are_opaque_lowercase_words() {
        assert!("tz4a98xxat96iws9zmbrgj3a".parse::<UserCuid>().is_ok());
        for wrong in ["", "a", "Ab", "a_b", "ü2", &"a".repeat(33)] {
            assert!(wrong.parse::<UserCuid>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_character_of_an_email_becomes_another_one() {
        // Kelvin, Ångström and Ohm signs, sharp S and theta as capitals, I with a dot, a digraph in title case.
        for replaced in ['\u{212a}', '\u{212b}', '\u{2126}', '\u{1e9e}', '\u{3f4}', '\u{130}', '\u{1c5}'] {
            assert!(format!("a{replaced}b@example.com").parse::<Email>().is_err(), "{replaced:?}");
            assert!(format!("ab@ex{replaced}mple.com").parse::<Email>().is_err(), "{replaced:?}");
        }
        // Only a letter and its capital may share a normal form.
        let mut sources: std::collections::HashMap<String, Vec<char>> = std::collections::HashMap::new();
        for character in ('\u{21}'..='\u{2fa1f}').filter(|character| !is_replaced(*character)) {
            let normal: String = std::iter::once(character).nfc().collect::<String>().to_lowercase();
            sources.entry(normal).or_default().push(character);
        }
        for (normal, characters) in &sources {
            let is_pair = |pair: &[char]| matches!(pair, [one, two] if one.to_lowercase().eq([*two]) || two.to_lowercase().eq([*one]));
            assert!(characters.len() == 1 || is_pair(characters), "{normal:?} of {characters:?}");
        }
    }

    #[test]
    fn emails_compare_trimmed_composed_and_in_lower_case() {
        let plain: Email = "zoë@example.com".parse().unwrap();
        assert_eq!(" Zoe\u{308}@Example.COM ".parse::<Email>().unwrap(), plain);
        assert_eq!("zoe@LocalHost".parse::<Email>().unwrap().as_str(), "zoe@localhost");
        for wrong in [
            "",
            "zoe",
            "zoe@",
            "@example.com",
            "a b@example.com",
            "Zoe <zoe@example.com>",
            "zoe@[127.0.0.1]",
            "zoe@a..b",
            "zoe@.b",
        ] {
            assert!(wrong.parse::<Email>().is_err(), "{wrong}");
        }
        assert_eq!(format!("{plain:?}"), "Email(…)");
        assert_eq!("ÉΣΑ@ÄÖ.example".parse::<Email>().unwrap().as_str(), "éσα@äö.example");
        assert!(plain.is_mailable());
        for quoted in ["\"victim@example.com\"@evil.com", "\"a b\"@x", "\"a\\\\b\"@x"] {
            assert!(!quoted.parse::<Email>().unwrap().is_mailable(), "{quoted}");
        }
    }
}
