//! Sign-in with a mailed code (`docs/decisions/0003-sign-in.md`): format, lifetime and tries of
//! codes.
//!
//! The browser that requests a code keeps a secret, the *ticket*. The code works only together with it, so a stolen
//! code is useless in another browser.

use std::fmt;
use std::str::FromStr;

use crate::ids::Email;
use crate::secret::{CodeKey, SecretHash};
use crate::{Rng, Timestamp, UnknownName};

/// Lifetime of a code, in seconds.
pub const CODE_SECONDS: i64 = 600;

/// Codes that may be tried with one ticket.
pub const TRIES_MAX: u32 = 5;

/// A sign-in code of eight decimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct SignInCode(String);

impl SignInCode {
    /// A random code out of a hundred million.
    pub fn draw(rng: &Rng) -> Self {
        Self(format!("{:08}", rng.below(100_000_000)))
    }

    /// The digits, for the mail and for [`CodeKey::seal`].
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl FromStr for SignInCode {
    type Err = &'static str;

    /// Ignores white space and dashes: people copy the code with the space in its middle, and some keyboards append
    /// one.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits: String = text.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
        if digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            Ok(Self(digits))
        } else {
            Err("expected eight decimal digits")
        }
    }
}

impl fmt::Debug for SignInCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignInCode(…)")
    }
}

/// Stored state of a ticket. Expiry and exhausted tries follow from its other members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum TicketState {
    /// The code can be tried.
    Live,
    /// A newer code for the same address replaced it.
    Superseded,
    /// A person signed in with it.
    Used,
}

impl TicketState {
    /// The name in rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A mailed code, and the browser that requested it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// SHA-256 of the browser's secret.
    pub token: SecretHash,
    /// E-mail address that the code signs in.
    pub email: Email,
    /// The code sealed by [`CodeKey::seal`] in the context of `token`.
    pub sealed_code: [u8; 32],
    /// Page to show after signing in.
    pub next: Option<ReturnPath>,
    /// Time of the request.
    pub created_at: Timestamp,
    /// Expiry of the code.
    pub expires_at: Timestamp,
    /// Number of tries so far.
    pub tries: u32,
    /// Stored state.
    pub state: TicketState,
}

/// Why a code does not sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignInRefusal {
    /// The code has expired or was used, or the browser has no ticket.
    #[error("the code has expired")]
    Expired,
    /// A newer code was mailed.
    #[error("a newer code was sent")]
    Superseded,
    /// No tries are left.
    #[error("too many wrong codes were typed")]
    Burnt,
    /// The code is wrong.
    #[error("the code is wrong")]
    Wrong {
        /// Number of remaining tries.
        tries_left: u32,
    },
}

impl Ticket {
    /// Checks whether a code can be tried.
    pub fn may_try(&self, now: Timestamp) -> Result<(), SignInRefusal> {
        match self.state {
            TicketState::Superseded => Err(SignInRefusal::Superseded),
            TicketState::Used => Err(SignInRefusal::Expired),
            TicketState::Live if self.tries >= TRIES_MAX => Err(SignInRefusal::Burnt),
            TicketState::Live if now >= self.expires_at => Err(SignInRefusal::Expired),
            TicketState::Live => Ok(()),
        }
    }

    /// Checks a code after its try was counted in `tries`, so that parallel requests get no additional tries.
    pub fn opens(&self, code: &SignInCode, key: &CodeKey) -> Result<(), SignInRefusal> {
        if key.opens(self.token.as_bytes(), code.expose(), &self.sealed_code) {
            return Ok(());
        }
        match TRIES_MAX.saturating_sub(self.tries) {
            0 => Err(SignInRefusal::Burnt),
            tries_left => Err(SignInRefusal::Wrong { tries_left }),
        }
    }
}

/// The method of a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignInMethod {
    /// A mailed code.
    Code,
    /// The OpenID provider of this name.
    Oidc(String),
    /// A command of the operator.
    Operator,
}

impl fmt::Display for SignInMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code => f.write_str("code"),
            Self::Oidc(name) => write!(f, "oidc:{name}"),
            Self::Operator => f.write_str("operator"),
        }
    }
}

impl FromStr for SignInMethod {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.strip_prefix("oidc:")) {
            ("code", _) => Ok(Self::Code),
            ("operator", _) => Ok(Self::Operator),
            (_, Some(name)) if !name.is_empty() => Ok(Self::Oidc(name.to_owned())),
            _ => Err("not a way to sign in"),
        }
    }
}

/// The page to show after signing in: path and query of one of the server's pages, in a form that no browser can read
/// as another site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnPath(String);

/// Maximum length, in bytes.
const NEXT_BYTES_MAX: usize = 512;

impl ReturnPath {
    /// Path and query, for the redirect.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for ReturnPath {
    /// The account page.
    fn default() -> Self {
        Self("/account".into())
    }
}

impl FromStr for ReturnPath {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const PAGES: [&str; 4] = ["/account", "/claim", "/device", "/knowledge"];
        // An allowlist, because browsers drop tabs and newlines, read `\` as `/`, and decode `%2f` and `..`.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~?=&%+,".contains(&byte);
        let (path, _) = text.split_once('?').unwrap_or((text, ""));
        let page = PAGES
            .iter()
            .any(|page| path.strip_prefix(page).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
        let straight =
            !path.contains("//") && !path.contains('%') && !path.split('/').any(|part| matches!(part, "." | ".."));
        if text.len() <= NEXT_BYTES_MAX && page && straight && text.bytes().all(plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err("not one of our pages")
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use proptest::prelude::*;

    use super::*;
    use crate::Rng;
    use crate::secret::{Secret, SecretKind};

    fn now() -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn ticket(key: &CodeKey, code: &str) -> Ticket {
        let token = Secret::mint(SecretKind::SignInTicket, &Rng::seeded(1)).hash();
        Ticket {
            token,
            email: "ada@example.com".parse().unwrap(),
            sealed_code: key.seal(token.as_bytes(), code),
            next: None,
            created_at: now(),
            expires_at: now() + TimeDelta::seconds(CODE_SECONDS),
            tries: 0,
            state: TicketState::Live,
        }
    }

    #[test]
    fn codes_are_eight_digits_however_they_are_copied() {
        for _ in 0..1000 {
            let code = SignInCode::draw(&Rng::system());
            assert_eq!(code.expose().parse(), Ok(code.clone()));
        }
        for text in ["12345678", " 1234 5678\n", "1234-5678", "1234\u{a0}5678"] {
            assert_eq!(text.parse::<SignInCode>().unwrap().expose(), "12345678");
        }
        for wrong in ["", "1234567", "123456789", "1234567a", "１２３４５６７８"] {
            assert!(wrong.parse::<SignInCode>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_end_of_a_ticket_is_distinguished() {
        let live = ticket(&CodeKey::new([1; 32]), "12345678");
        assert_eq!(live.may_try(now()), Ok(()));
        assert_eq!(live.may_try(live.expires_at), Err(SignInRefusal::Expired));
        assert_eq!(Ticket { tries: 4, ..live.clone() }.may_try(now()), Ok(()));
        assert_eq!(Ticket { tries: 5, ..live.clone() }.may_try(now()), Err(SignInRefusal::Burnt));
        assert_eq!(Ticket { state: TicketState::Used, ..live.clone() }.may_try(now()), Err(SignInRefusal::Expired));
        assert_eq!(Ticket { state: TicketState::Superseded, ..live }.may_try(now()), Err(SignInRefusal::Superseded));
    }

    #[test]
    fn the_right_code_opens_up_to_the_last_try() {
        let key = CodeKey::new([1; 32]);
        let (right, wrong) = ("12345678".parse().unwrap(), "87654321".parse().unwrap());
        let tried = |tries| Ticket { tries, ..ticket(&key, "12345678") };
        assert_eq!(tried(5).opens(&right, &key), Ok(()));
        assert_eq!(tried(1).opens(&wrong, &key), Err(SignInRefusal::Wrong { tries_left: 4 }));
        assert_eq!(tried(4).opens(&wrong, &key), Err(SignInRefusal::Wrong { tries_left: 1 }));
        assert_eq!(tried(5).opens(&wrong, &key), Err(SignInRefusal::Burnt));
    }

    #[test]
    fn ways_to_sign_in_survive_being_written() {
        for via in [SignInMethod::Code, SignInMethod::Operator, SignInMethod::Oidc("work".into())] {
            assert_eq!(via.to_string().parse(), Ok(via));
        }
        assert!("oidc:".parse::<SignInMethod>().is_err() && "magic".parse::<SignInMethod>().is_err());
    }

    #[test]
    fn only_our_own_pages_come_next() {
        for good in [
            "/account",
            "/account/computers",
            "/claim?attempt=cat_A-b_c",
            "/device",
            "/device?user_code=BCDF-GHJK",
            "/knowledge/x?q=a%20b",
        ] {
            assert_eq!(good.parse::<ReturnPath>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            "/",
            "account",
            "//evil.example",
            "/\\evil.example",
            "\\/evil.example",
            "https://evil.example/account",
            "/account//evil.example",
            "/accountant",
            "/account/../signout",
            "/account/%2e%2e/signout",
            "/account\n",
            "/account\t/",
            "/account#x",
            "/account@evil.example",
            "/signout",
            "/api/v1/agents",
            "/account?next=https://evil.example",
            " /account",
        ] {
            assert!(bad.parse::<ReturnPath>().is_err(), "{bad:?}");
        }
        assert!(format!("/account?{}", "x".repeat(600)).parse::<ReturnPath>().is_err());
    }

    proptest! {
        #[test]
        fn every_return_path_stays_on_our_origin(text in "[/\\\\a-z%.:@?#\\t2f]{0,24}|/(account|claim|device)[/\\\\a-z%.:@?#]{0,12}") {
            if let Ok(next) = text.parse::<ReturnPath>() {
                let path = next.as_str().split('?').next().unwrap_or_default();
                prop_assert!(path.starts_with('/') && !path.contains("//"));
                prop_assert!(!next.as_str().contains(['\\', '#', '@', ':', '\t']));
            }
        }
    }
}
