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

use super::{PageError, PageLayout, SignedIn, page};
use crate::app::App;
use crate::http::account::{AGENTS_MAX, COMPUTERS_MAX};

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
    frame: PageLayout,
}

impl FromRequestParts<App> for Owner {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, PageError> {
        let visitor = SignedIn::from_request_parts(parts, app).await?;
        if let Some(account) = visitor.account.clone() {
            return Ok(Self { visitor, account });
        }
        let frame = PageLayout::new(app, Some(&visitor));
        Err(PageError::drawn(page(StatusCode::FORBIDDEN, &NoAccountPage { frame })))
    }
}
