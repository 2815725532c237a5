//! Identifiers, typed at the door: past it there is no `String` id.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};
use unicode_normalization::UnicodeNormalization;
use uuid::Uuid;

/// A text that is not the identifier it should be; `Display` says what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct InvalidId(&'static str);

/// Lowercase hex in the 8-4-4-4-12 layout, version 7, variant 8, 9, a or b (`docs/protocol/conventions.md#identifiers`).
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
            /// The UUID itself, as the databases keep it.
            pub fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        /// Trusts the caller: for values that were made or stored by us.
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
    /// An installation: the facts and the log that belong together.
    InstallationId;
    /// A computer.
    MachineUuid;
    /// An event, chosen by its sender.
    EventId;
    /// The receipt of a forwarded event, chosen by the statistics service.
    ReceiptId;
    /// An agent's registration; also the `id` of the agent in the account summary.
    RegistrationId;
    /// A working session on a computer, named by an event's scope.
    SessionUuid;
    /// A person who can sign in.
    PersonId;
    /// An entry of the list of held events.
    HeldId;
    /// A signed-in browser, as its owner sees it in a list.
    SessionId;
    /// A letter that waits to be sent.
    MailId;
    /// A key of the knowledge API, without its secret.
    ApiKeyId;
    /// A space of the knowledge API.
    SpaceId;
    /// A page or note that the knowledge API keeps.
    MemoryId;
    /// A batch of addresses and notes on its way into the knowledge API.
    BatchId;
}

macro_rules! cuid2_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The text of the identifier.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            /// CUID2 is opaque: 2 to 32 lowercase letters and digits, nothing read into them.
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
    /// An identity that lives on computers and may be linked to one account.
    UserCuid;
    /// An account.
    UserAccountId;
}

/// An e-mail address in the one form that is stored and compared: trimmed, NFC, lower case.
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
    /// Whether mail can be sent to it. Mail servers and libraries take no quoted local parts (RFC 5321, section 4.1.2), in which an
    /// address may look like another.
    pub fn is_mailable(&self) -> bool {
        !self.0.contains(['"', '\\', ' '])
    }
}

impl FromStr for Email {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let normal: String = text.trim().nfc().collect::<String>().to_lowercase();
        // A network of its own may have hosts of one word.
        let plain = email_address::Options::default().without_display_text().without_domain_literal();
        match email_address::EmailAddress::parse_with_options(&normal, plain) {
            Ok(_) => Ok(Self(normal)),
            Err(_) => Err(InvalidId("an e-mail address")),
        }
    }
}

/// Addresses are personal data: a log that prints one by accident shows only that there is one.
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
        assert!(plain.is_mailable());
        for quoted in ["\"victim@example.com\"@evil.com", "\"a b\"@x", "\"a\\\\b\"@x"] {
            assert!(!quoted.parse::<Email>().unwrap().is_mailable(), "{quoted}");
        }
    }
}
