//! The pages of the knowledge API: what a person and their agents share, added to, searched, set up and forgotten.
//!
//! Everything goes through what the API's own routes go through, so the same limits hold; a person may whatever their account may.
//!
//! | page | what stands on it |
//! |---|---|
//! | [`home`] | the search box, the form to add, spaces, recent batches |
//! | [`batch`] | what becomes of each thing that was added; [`live`] tells it as it happens |
//! | [`spaces`] | one space, and who may read it |
//! | [`settings`](mod@settings) | what new content has to be, and what was left out |
//! | [`memory`] | one memory: its text, where it is from, and how to delete it |

pub mod add;
pub mod batch;
mod found;
pub mod home;
pub mod live;
pub mod memory;
pub mod settings;
pub mod spaces;

use axum::http::StatusCode;
use domain::ids::{SpaceId, UserAccountId};
use domain::space::Space;

use super::account::Owner;
use super::{PageError, Shown, SignedIn};
use crate::app::App;
use crate::http::error::{ApiError, Code};
use crate::http::knowledge::spaces::SPACES_LISTED_MAX;
use crate::knowledge::KnowledgeAccess;

/// Which of the account's tabs these pages are.
const TAB: &str = "knowledge";

impl Owner {
    /// What they may read and write.
    fn reader(&self) -> KnowledgeAccess {
        KnowledgeAccess::person(self.account.clone(), self.visitor.session)
    }
}

/// A space, by its name.
struct SpaceLink {
    id: String,
    name: String,
}

/// Those of `ids` that are spaces of this account, or that it was let into.
async fn links(app: &App, account: &UserAccountId, ids: &[SpaceId]) -> Result<Vec<SpaceLink>, PageError> {
    let spaces = app.store.spaces_of_account(account, SPACES_LISTED_MAX).await.map_err(PageError::store(app))?;
    let link = |space: Space| SpaceLink { id: space.id.to_string(), name: space.name.as_str().to_owned() };
    Ok(spaces.into_iter().filter(|space| ids.contains(&space.id)).map(link).collect())
}

/// What was wrong with what a person sent, in words for the place where they sent it; anything else is no fault of theirs.
fn fault(error: &ApiError) -> Option<String> {
    match error.code() {
        Code::InvalidRequest => error.first_issue().map(|issue| sentence(&issue)),
        Code::RateLimited => {
            Some("You are adding as much as you may at once. Wait until one of your batches is done.".to_owned())
        }
        Code::SpaceForbidden => Some("This space is not there any more, or you may not do this there.".to_owned()),
        _ => None,
    }
}

/// A rule as a sentence: `contents[0].content` is the first note.
fn sentence(issue: &str) -> String {
    let note = issue.strip_prefix("contents[").and_then(|rest| rest.split_once("].content: "));
    let words = match note.and_then(|(nth, rule)| Some((nth.parse::<usize>().ok()?, rule))) {
        Some((nth, rule)) => format!("note {} {rule}", nth + 1),
        None => issue.split_once(": ").map_or(issue, |(_, rule)| rule).to_owned(),
    };
    capitalised(&words)
}

fn capitalised(words: &str) -> String {
    let mut letters = words.chars();
    let Some(first) = letters.next() else { return String::new() };
    let stop = if words.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{}{}{stop}", first.to_uppercase(), letters.as_str())
}

/// What was named is not, or is not theirs: the two look the same.
fn gone(app: &App, visitor: &SignedIn) -> PageError {
    PageError::shown(
        app,
        Some(visitor),
        StatusCode::NOT_FOUND,
        Shown {
            title: "There is nothing like this here",
            text: "It was deleted already, or it was never yours.",
            next: "Your knowledge page shows what there is.",
            link: "/knowledge".into(),
            label: "To your knowledge",
        },
    )
}

/// For [`Result::map_err`]: what is not there has a page of its own.
fn page_error(app: &App, visitor: &SignedIn) -> impl Fn(ApiError) -> PageError {
    let (app, visitor) = (app.clone(), visitor.clone());
    move |error| match error.code() {
        Code::NotFound | Code::SpaceForbidden => gone(&app, &visitor),
        _ => PageError::api(&app, &error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_told_as_sentences() {
        assert_eq!(sentence("contents[1].content: must have text"), "Note 2 must have text.");
        assert_eq!(sentence("spaces: must name at most 20"), "Must name at most 20.");
        assert_eq!(sentence("a batch has at most 600 items"), "A batch has at most 600 items.");
        assert_eq!(sentence(""), "");
    }
}
