//! The account pages: the computers and agents that act for a person, their consent, their activity, and how to revoke them.
//!
//! | page | content |
//! |---|---|
//! | [`home`] | first steps, usage, computers, agents |
//! | [`computer`], [`agent`] | its name, its state, how to end it |
//! | [`consent`](mod@consent) | how much every computer may record, lane by lane |
//! | [`access`] | browsers that are signed in, keys of the knowledge API |
//! | [`activity`] | recorded events with their proofs, and held events |
//! | [`costs`] | tokens and costs of models |
//! | [`sessions`] | sessions of agents, and their timelines |
//! | [`data`](mod@data) | the download of everything, and the end of the account |
//! | [`webhooks`] | endpoints that the account is notified at |
//! | [`feed`] | the same notifications in a feed reader |
//! | [`audits`] | links that show a session or a lane to others |
//! | [`undo`] | the pages that ask for a confirmation before something ends permanently |

pub mod access;
pub mod activity;
pub mod agent;
pub mod audits;
pub mod computer;
pub mod consent;
pub mod costs;
pub mod data;
pub mod feed;
pub mod home;
mod kinds;
pub mod pause;
pub mod rules;
pub mod sessions;
pub mod undo;
pub mod webhooks;

use api::HttpState;
use askama::Template;
use axum::extract::{FromRef, FromRequestParts};
use axum::http::StatusCode;
use axum::http::request::Parts;
use domain::ids::UserAccountId;

use super::{PageError, PageLayout, SignedIn, Site, page};

/// A signed-in person with an account. For a person without one the rejection is a page that explains how to get one.
#[derive(Debug, Clone)]
pub struct AccountOwner {
    /// The person.
    pub visitor: SignedIn,
    /// The account of the person.
    pub account: UserAccountId,
}

#[derive(Template)]
#[template(path = "account/none.html")]
struct NoAccountPage {
    frame: PageLayout,
}

impl FromRequestParts<HttpState> for AccountOwner {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, PageError> {
        let visitor = SignedIn::from_request_parts(parts, state).await?;
        if let Some(account) = visitor.account.clone() {
            return Ok(Self { visitor, account });
        }
        let frame = PageLayout::new(&Site::from_ref(state), Some(&visitor));
        Err(PageError::drawn(page(StatusCode::FORBIDDEN, &NoAccountPage { frame })))
    }
}
