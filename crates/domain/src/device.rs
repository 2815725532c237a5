//! Device codes, with which a signed-in person attaches a computer (`docs/protocol/computers.md#device-flow`,
//! `docs/decisions/0004-device-codes.md`; RFC 8628). These functions decide
//! transitions; the actors, and for an approval the store, execute them.

pub mod approval;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chrono::TimeDelta;

use crate::api_key::ApiKeyScope;
use crate::ids::{MachineUuid, RegistrationId, UserAccountId, UserCuid};
use crate::secret::SecretHash;
use crate::tool::Tool;
use crate::{Rng, Timestamp};

/// Lifetime of a device code and its user code: 1800 seconds, fixed by the protocol.
pub const CODE_SECONDS: i64 = 1800;

/// Initial interval of polls: 5 seconds, fixed by the protocol.
pub const INTERVAL_SECONDS: u32 = 5;

/// Added to the interval by each `slow_down` (RFC 8628, section 3.5).
pub const SLOW_DOWN_SECONDS: u32 = 5;

/// Maximum interval.
pub const INTERVAL_SECONDS_MAX: u32 = 60;

/// How early a poll may arrive, to allow for jitter of networks and timers.
pub const TOLERANCE: Duration = Duration::from_secs(1);

/// How long after the approval a poll still returns it.
pub const CLAIMED_FOR: TimeDelta = TimeDelta::hours(24);

/// Wrong user codes per person within [`GUESS_WINDOW`].
pub const GUESSES_MAX: u32 = 5;

/// Window in which [`GUESSES_MAX`] applies.
pub const GUESS_WINDOW: TimeDelta = TimeDelta::minutes(30);

/// The letters of a user code: no vowels, so that no words form, and no letters that look alike.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";

/// Eight letters that a person copies from one screen to another: 20^8 codes.
#[derive(Clone, PartialEq, Eq)]
pub struct UserCode(String);

impl UserCode {
    /// A random code.
    pub fn draw(rng: &Rng) -> Self {
        let letter = |_| {
            // Below 20, so the conversion succeeds.
            let place = usize::try_from(rng.below(LETTERS.len() as u64)).unwrap_or_default();
            char::from(LETTERS[place % LETTERS.len()])
        };
        Self((0..8).map(letter).collect())
    }

    /// The letters without a dash, for [`crate::secret::CodeKey::seal`].
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Formats as `XXXX-XXXX`, for the response that returns it and for the page to confirm it.
    pub fn shown(&self) -> String {
        format!("{}-{}", &self.0[..4], &self.0[4..])
    }
}

/// A text that cannot be a user code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected eight letters such as WDJB-MJHT")]
pub struct NotAUserCode;

impl FromStr for UserCode {
    type Err = NotAUserCode;

    /// Ignores case, and all characters except letters and digits.
    fn from_str(text: &str) -> Result<Self, NotAUserCode> {
        let letters: String =
            text.chars().filter(|c| c.is_alphanumeric()).map(|c| c.to_ascii_uppercase()).take(9).collect();
        let right = letters.len() == 8 && letters.bytes().all(|letter| LETTERS.contains(&letter));
        if right { Ok(Self(letters)) } else { Err(NotAUserCode) }
    }
}

impl fmt::Debug for UserCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserCode(…)")
    }
}

/// State of a device code. `Pending` also ends by the clock; `Expired` is stored once the computer received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceState {
    /// Waits for a person.
    Pending,
    /// A person approved, and the computer is attached.
    Claimed {
        /// The account that the computer is attached to.
        account: UserAccountId,
        /// Time of the approval.
        at: Timestamp,
    },
    /// A person denied.
    Denied,
    /// The code expired and its computer received that; a late approval has no effect.
    Expired,
    /// The computer requested a newer code.
    Superseded,
}

/// A device code of a computer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCode {
    /// SHA-256 of the secret.
    pub code: SecretHash,
    /// The computer to attach.
    pub machine: MachineUuid,
    /// The identity of the computer.
    pub identity: UserCuid,
    /// Time of the request.
    pub created_at: Timestamp,
    /// Time until which a person may approve or deny.
    pub expires_at: Timestamp,
    /// Stored state.
    pub state: DeviceState,
}

/// A key of the knowledge API that a computer asks for along with its attachment (`docs/decisions/0004-device-codes.md`). The
/// computer made the key and keeps it; the server learns only the hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedKey {
    /// SHA-256 of the key.
    pub hash: SecretHash,
    /// Scopes that the key has once a person agreed: at least one, in the order of [`ApiKeyScope::ALL`].
    pub scopes: Vec<ApiKeyScope>,
}

/// An agent that asks to act for the account that its computer is attached to (`docs/decisions/0004-device-codes.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedAgent {
    /// Its registration: anonymous, neither claimed nor revoked.
    pub registration: RegistrationId,
    /// SHA-256 of its claim token, which proves that the computer holds the registration.
    pub claim_token: SecretHash,
    /// The tool of the agent.
    pub tool: Tool,
}

/// Result of a poll, before pacing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PollState {
    /// A person may still approve or deny.
    Pending,
    /// The computer is attached to this account.
    Claimed(UserAccountId),
    /// A person said no.
    Denied,
    /// The code expired or was replaced, or its approval is older than [`CLAIMED_FOR`].
    Expired,
}

impl DeviceCode {
    /// The result of a poll. A decision stays available after the code expires.
    pub fn standing(&self, now: Timestamp) -> PollState {
        match &self.state {
            DeviceState::Pending if now < self.expires_at => PollState::Pending,
            DeviceState::Claimed { account, at } if now < *at + CLAIMED_FOR => PollState::Claimed(account.clone()),
            DeviceState::Denied => PollState::Denied,
            DeviceState::Pending | DeviceState::Claimed { .. } | DeviceState::Expired | DeviceState::Superseded => {
                PollState::Expired
            }
        }
    }
}

/// Paces the polls of one computer for one code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacing {
    interval_seconds: u32,
}

impl Default for Pacing {
    fn default() -> Self {
        Self { interval_seconds: INTERVAL_SECONDS }
    }
}

impl Pacing {
    /// Checks a poll that arrives `since_accepted` after the last accepted one; the first poll is always accepted. A
    /// poll that arrives too early raises the interval and returns the new one, in seconds.
    pub fn poll(&mut self, since_accepted: Option<Duration>) -> Result<(), u32> {
        let due = Duration::from_secs(u64::from(self.interval_seconds));
        if since_accepted.is_none_or(|since| since + TOLERANCE >= due) {
            return Ok(());
        }
        self.interval_seconds = (self.interval_seconds + SLOW_DOWN_SECONDS).min(INTERVAL_SECONDS_MAX);
        Err(self.interval_seconds)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Rng;
    use crate::secret::{Secret, SecretKind};

    fn now() -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn code(state: DeviceState) -> DeviceCode {
        let rng = Rng::seeded(1);
        DeviceCode {
            code: Secret::mint(SecretKind::DeviceCode, &rng).hash(),
            machine: rng.uuid_v7(now()).into(),
            identity: rng.cuid2().parse().unwrap(),
            created_at: now(),
            expires_at: now() + TimeDelta::seconds(CODE_SECONDS),
            state,
        }
    }

    #[test]
    fn codes_are_eight_letters_with_any_separator() {
        for seed in 0..200 {
            let drawn = UserCode::draw(&Rng::seeded(seed));
            assert_eq!(drawn.expose().len(), 8);
            for written in
                [drawn.shown(), drawn.shown().to_lowercase(), format!(" {} ", drawn.shown().replace('-', " – "))]
            {
                assert_eq!(written.parse(), Ok(drawn.clone()), "{written}");
            }
        }
        for wrong in ["", "-", "BCDFGHJ", "BCDFGHJKL", "BCDF-GHJA", "BCDF-GHJ1", "ＢCDFGHJK", "BCDFGHJKé"] {
            assert_eq!(wrong.parse::<UserCode>(), Err(NotAUserCode), "{wrong}");
        }
    }

    #[test]
    fn a_decision_of_a_person_outlives_the_time_of_the_code() {
        let late = now() + TimeDelta::seconds(CODE_SECONDS);
        let account: UserAccountId = "account1".parse().unwrap();
        assert_eq!(code(DeviceState::Pending).standing(now()), PollState::Pending);
        assert_eq!(code(DeviceState::Pending).standing(late), PollState::Expired);
        assert_eq!(code(DeviceState::Denied).standing(late), PollState::Denied);
        for over in [DeviceState::Expired, DeviceState::Superseded] {
            assert_eq!(code(over).standing(now()), PollState::Expired);
        }
        let claimed = code(DeviceState::Claimed { account: account.clone(), at: now() });
        assert_eq!(claimed.standing(late), PollState::Claimed(account));
        assert_eq!(claimed.standing(now() + CLAIMED_FOR), PollState::Expired);
    }

    #[test]
    fn the_interval_grows_by_five_seconds_up_to_a_minute() {
        let mut pacing = Pacing::default();
        assert_eq!(pacing.poll(None), Ok(()));
        assert_eq!(pacing.poll(Some(Duration::from_secs(4))), Ok(()));
        for interval in (10..=60).step_by(5) {
            assert_eq!(pacing.poll(Some(Duration::from_secs(3))), Err(interval));
        }
        assert_eq!(pacing.poll(Some(Duration::from_millis(58_999))), Err(60));
        assert_eq!(pacing.poll(Some(Duration::from_secs(59))), Ok(()));
    }

    proptest! {
        /// A client that keeps to the interval is never slowed down if its waits are off by at most 0.9 seconds.
        #[test]
        fn an_honest_client_is_never_slowed_down(jitters in proptest::collection::vec(-900_i64..=900, 2..400)) {
            let mut pacing = Pacing::default();
            prop_assert_eq!(pacing.poll(None), Ok(()));
            for jitter in jitters {
                let waited = Duration::from_millis(u64::try_from(5000 + jitter).unwrap());
                prop_assert_eq!(pacing.poll(Some(waited)), Ok(()));
            }
        }
    }
}
