//! The account page: what acts for a person, how much it may record, what it did, and how to undo it.
//!
//! | page | what stands on it |
//! |---|---|
//! | [`home`] | usage, computers, agents |
//! | [`consent`](mod@consent) | how much every computer may record, lane by lane |
//! | [`access`] | browsers that are signed in, keys of the knowledge API |
//! | [`activity`] | what was recorded, with its proof, and what is held |
//! | [`undo`] | the pages that ask once more before something ends for ever |

pub mod access;
pub mod activity;
pub mod consent;
pub mod home;
pub mod undo;

use askama::Template;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use domain::ids::UserAccountId;

use super::{Frame, SignedIn, Trouble, page};
use crate::house::House;

/// Computers that one page shows.
const COMPUTERS_MAX: usize = 500;
/// Agents that one page shows.
const AGENTS_MAX: usize = 500;

/// A signed-in person with an account; whoever has none is told how to get one.
#[derive(Debug, Clone)]
pub struct Owner {
    /// Who.
    pub visitor: SignedIn,
    /// Their account.
    pub account: UserAccountId,
}

#[derive(Template)]
#[template(path = "account/none.html")]
struct NoAccountPage {
    frame: Frame,
}

impl FromRequestParts<House> for Owner {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, house: &House) -> Result<Self, Trouble> {
        let visitor = SignedIn::from_request_parts(parts, house).await?;
        if let Some(account) = visitor.account.clone() {
            return Ok(Self { visitor, account });
        }
        let frame = Frame::new(house, Some(&visitor));
        Err(Trouble::drawn(page(StatusCode::FORBIDDEN, &NoAccountPage { frame })))
    }
}
