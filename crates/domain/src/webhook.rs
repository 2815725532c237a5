//! Webhooks: notifications, their bodies and their signatures (`docs/protocol/webhooks.md`, [Standard
//! Webhooks](https://www.standardwebhooks.com)).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::Sha256;
use uuid::Uuid;

use crate::clock::date_time;
use crate::ids::{UserAccountId, WebhookId};
use crate::web_url::WebUrl;
use crate::{Digest, Rng, Timestamp, UnknownName};

/// Maximum length of a description, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 200;

/// Type of the notification that an owner sends to test an endpoint; every endpoint gets it.
pub const TEST: &str = "webhook.test";

/// A kind of notification that an endpoint can ask for.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantNames,
    strum::Display,
    strum::VariantArray,
)]
#[strum(parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum NotificationKind {
    /// An event is held.
    #[serde(rename = "event.held")]
    #[strum(serialize = "event.held")]
    EventHeld,
    /// An agent is revoked.
    #[serde(rename = "agent.revoked")]
    #[strum(serialize = "agent.revoked")]
    AgentRevoked,
    /// A computer is detached.
    #[serde(rename = "computer.detached")]
    #[strum(serialize = "computer.detached")]
    ComputerDetached,
    /// A consent level changed.
    #[serde(rename = "consent.changed")]
    #[strum(serialize = "consent.changed")]
    ConsentChanged,
    /// A batch of the knowledge API ended.
    #[serde(rename = "batch.done")]
    #[strum(serialize = "batch.done")]
    BatchDone,
    /// Recorded events match a rule of the account.
    #[serde(rename = "rule.matched")]
    #[strum(serialize = "rule.matched")]
    RuleMatched,
}

impl NotificationKind {
    /// All kinds, in the order of lists.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The name in requests, bodies and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The kinds in the order of [`NotificationKind::ALL`], each once.
pub fn kinds_of(named: &[NotificationKind]) -> Vec<NotificationKind> {
    NotificationKind::ALL.iter().copied().filter(|kind| named.contains(kind)).collect()
}

/// The kinds of a choice as [`kinds_of`] returns them; `None` if the choice is empty.
pub fn chosen_kinds(named: &[NotificationKind]) -> Option<Vec<NotificationKind>> {
    Some(kinds_of(named)).filter(|kinds| !kinds.is_empty())
}

/// The body of a notification: JSON with `type`, `timestamp` and `data`.
pub fn body(kind: &str, at: Timestamp, data: &Value) -> String {
    json!({ "type": kind, "timestamp": date_time(at), "data": data }).to_string()
}

/// Id of the notification about a fact: the same for every writer and every try.
pub fn notification_id(kind: &str, fact: Uuid, at: Timestamp) -> Uuid {
    hashed_id(&format!("{kind} {fact} {}", date_time(at)))
}

pub(crate) fn hashed_id(text: &str) -> Uuid {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&Digest::of(text.as_bytes()).as_bytes()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// The value of the header `webhook-id`.
pub fn message_id(notification: Uuid) -> String {
    format!("msg_{}", notification.simple())
}

/// First characters of the key of an endpoint, as libraries that verify take it.
pub const SECRET_PREFIX: &str = "whsec_";

/// The key with which notifications to an endpoint are signed. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret([u8; 32]);

impl SigningSecret {
    /// A new secret of 32 random bytes.
    pub fn mint(rng: &Rng) -> Self {
        Self(rng.bytes())
    }

    /// The stored bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// [`SECRET_PREFIX`] and the key in base64.
    pub fn expose(&self) -> String {
        format!("{SECRET_PREFIX}{}", BASE64_STANDARD.encode(self.0))
    }

    /// One entry of the header `webhook-signature`: `v1,` and the base64 of HMAC-SHA-256 of `id.timestamp.body`, with the timestamp in
    /// seconds.
    pub fn signature(&self, id: &str, timestamp: i64, body: &str) -> String {
        signature(&self.0, id, timestamp, body)
    }
}

/// `key` has at most 64 bytes.
fn signature(key: &[u8], id: &str, timestamp: i64, body: &str) -> String {
    // HMAC pads a short key with zeros to its block of 64 bytes (RFC 2104), which makes the constructor infallible here.
    let mut block = [0; 64];
    for (place, byte) in block.iter_mut().zip(key) {
        *place = *byte;
    }
    let mut mac = Hmac::<Sha256>::new(&block.into());
    mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
    format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
}

impl From<[u8; 32]> for SigningSecret {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

/// The owner's words about an endpoint: at most [`DESCRIPTION_CHARS_MAX`] characters on one line, trimmed; may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct EndpointDescription(String);

/// A text that is no description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be one line of at most {DESCRIPTION_CHARS_MAX} characters")]
pub struct InvalidDescription;

impl EndpointDescription {
    /// The trimmed text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EndpointDescription {
    type Err = InvalidDescription;

    fn from_str(text: &str) -> Result<Self, InvalidDescription> {
        let text = text.trim();
        let is_line = !text.chars().any(char::is_control) && text.chars().count() <= DESCRIPTION_CHARS_MAX;
        if is_line { Ok(Self(text.to_owned())) } else { Err(InvalidDescription) }
    }
}

/// Why an endpoint gets no notifications.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantNames,
    strum::Display,
    strum::VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum DisabledWhy {
    /// Its owner disabled it.
    Owner,
    /// It responded with 410.
    Gone,
    /// It failed for days.
    Failing,
    /// An operator disabled it, and only an operator ends this.
    Operator,
}

/// An endpoint of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Identifies the endpoint in lists and routes.
    pub id: WebhookId,
    /// The account that is notified.
    pub account: UserAccountId,
    /// Where notifications are sent to.
    pub url: WebUrl,
    /// The owner's words about it.
    pub description: EndpointDescription,
    /// The kinds of notification that it gets.
    pub kinds: Vec<NotificationKind>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// The time at which it was disabled, and the reason; an operator's precedes others.
    pub disabled: Option<(Timestamp, DisabledWhy)>,
    /// The first failure after the last success.
    pub failing_since: Option<Timestamp>,
    /// Number of notifications that were dropped because too many waited, and the time of the last one.
    pub dropped: Option<(u64, Timestamp)>,
    /// When the replaced secret ends, if there is one.
    pub old_secret_until: Option<Timestamp>,
}

/// Delays between the tries of one delivery, in multiples of the first delay; they approximate the recommendation of Standard Webhooks (5
/// s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h). Later delays equal the last one.
const DELAYS: [u32; 9] = [1, 60, 360, 1440, 3600, 7200, 10_080, 14_400, 17_280];

/// Delay after a number of tries, at least 1, without jitter. `first` is the delay after the first try.
pub fn delay_after(tries: u32, first: Duration) -> Duration {
    let place = usize::try_from(tries.saturating_sub(1)).unwrap_or(usize::MAX).min(DELAYS.len() - 1);
    first.saturating_mul(DELAYS[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_published_libraries() {
        // The example of the libraries of Standard Webhooks.
        let key = BASE64_STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let secret = SigningSecret::from([7; 32]);
        assert_eq!(format!("{secret:?}"), "SigningSecret(…)");
        assert_eq!(secret.expose(), format!("whsec_{}", BASE64_STANDARD.encode([7; 32])));
    }

    #[test]
    fn the_id_of_a_notification_is_that_of_its_fact() {
        let at = |millis| Timestamp::from_timestamp_millis(millis).unwrap();
        let id = notification_id("event.held", Uuid::from_u128(1), at(1));
        assert_eq!(id, notification_id("event.held", Uuid::from_u128(1), at(1)));
        for other in [
            notification_id("batch.done", Uuid::from_u128(1), at(1)),
            notification_id("event.held", Uuid::from_u128(2), at(1)),
            notification_id("event.held", Uuid::from_u128(1), at(2)),
        ] {
            assert_ne!(id, other);
        }
        assert_eq!((id.get_version_num(), message_id(id).len()), (8, 36));
    }

    #[test]
    fn delays_grow_as_recommended_and_stay_at_the_longest() {
        let delays: Vec<u64> = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 99]
            .map(|tries| delay_after(tries, Duration::from_secs(5)).as_secs())
            .to_vec();
        assert_eq!(delays, [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400, 86_400, 86_400]);
        assert_eq!(delay_after(0, Duration::from_secs(5)), Duration::from_secs(5));
    }

    #[test]
    fn a_description_is_one_line() {
        assert_eq!(" to the pager ".parse::<EndpointDescription>().unwrap().as_str(), "to the pager");
        assert!("".parse::<EndpointDescription>().is_ok() && "é".repeat(200).parse::<EndpointDescription>().is_ok());
        for wrong in ["a\nb", "\u{0}", &"é".repeat(201)] {
            assert_eq!(wrong.parse::<EndpointDescription>(), Err(InvalidDescription), "{wrong:?}");
        }
    }

    #[test]
    fn kinds_are_listed_once_and_in_one_order() {
        use NotificationKind::{BatchDone, EventHeld};
        assert_eq!(kinds_of(&[BatchDone, EventHeld, BatchDone]), [EventHeld, BatchDone]);
        assert_eq!((chosen_kinds(&[]), chosen_kinds(&[EventHeld])), (None, Some(vec![EventHeld])));
        for kind in NotificationKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(*kind));
            assert_eq!(json!(kind), json!(kind.as_str()));
        }
    }
}
