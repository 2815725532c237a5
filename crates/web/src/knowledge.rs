//! The pages of the knowledge API: a person adds, searches, configures and deletes the memories that they share with their agents.
//!
//! The pages use the same services as the routes of the API, so the same limits apply. A person has all rights of the account.
//!
//! | page | content |
//! |---|---|
//! | [`home`] | Search: the search box, and the newest memories |
//! | [`library`] | Library: the memories of the account and its spaces; [`selected`] changes several memories at a time |
//! | [`add`] | Add: URLs, notes, files, and an export ([`import`]) |
//! | [`settings`](mod@settings) | Settings: spaces, the rules that new content has to meet, API keys |
//! | [`batch`] | the state of each item of a batch; [`live`] updates it |
//! | [`spaces`] | one space, and who may read it |
//! | [`memory`] | one memory: its text and source; [`edit`] changes it |

pub mod add;
pub mod batch;
pub mod edit;
mod found;
pub mod home;
pub mod import;
pub mod library;
pub mod live;
pub mod memory;
mod row;
pub mod selected;
pub mod settings;
pub mod spaces;

use app::services::knowledge::{KnowledgeAccess, Refusal, Spaces};
use axum::http::StatusCode;
use domain::ids::{SpaceId, UserAccountId};
use domain::space::Space;

use super::account::AccountOwner;
use super::{PageError, PageErrorTexts, SignedIn, Site};

/// The account's tab of these pages.
const TAB: &str = "knowledge";

impl AccountOwner {
    /// The rights of the person: all rights of the account.
    pub(crate) fn access(&self) -> KnowledgeAccess {
        KnowledgeAccess::person(self.account.clone(), self.visitor.session)
    }
}

/// A space, by its name.
struct SpaceLink {
    id: String,
    name: String,
}

/// Links to the spaces of `ids` that belong to this account or are shared with it.
async fn links(
    site: &Site,
    spaces: &Spaces,
    account: &UserAccountId,
    ids: &[SpaceId],
) -> Result<Vec<SpaceLink>, PageError> {
    let spaces = spaces.list(account).await.map_err(PageError::of(site))?;
    let link = |space: Space| SpaceLink { id: space.id.to_string(), name: space.name.as_str().to_owned() };
    Ok(spaces.into_iter().filter(|space| ids.contains(&space.id)).map(link).collect())
}

/// The fault in the input of a person, as a sentence for the place of the input. `None`: the cause is not the input.
fn fault(refusal: &Refusal) -> Option<String> {
    match refusal {
        Refusal::Invalid { path, rule } if path.is_empty() => Some(sentence(rule)),
        Refusal::Invalid { path, rule } => Some(sentence(&format!("{path}: {rule}"))),
        Refusal::TooManyBatches { .. } => {
            Some("You have the maximum number of running batches. Wait until one of them has ended.".to_owned())
        }
        Refusal::QuotaExceeded => {
            Some("Your memories are as large as your plan permits. Delete some of them first.".to_owned())
        }
        Refusal::SpaceForbidden => Some("The space does not exist any more, or you have no access to it.".to_owned()),
        Refusal::Filter(_) | Refusal::NotFound | Refusal::KeyReused | Refusal::Infra(_) => None,
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

/// The page for an unknown id; ids of other accounts are treated alike.
fn gone(site: &Site, visitor: &SignedIn) -> PageError {
    PageError::shown(
        site,
        Some(visitor),
        StatusCode::NOT_FOUND,
        PageErrorTexts {
            title: "Not found",
            text: "It was already deleted, or it never belonged to your account.",
            next: "Your knowledge page lists your memories and spaces.",
            link: "/knowledge".into(),
            label: "Your knowledge",
        },
    )
}

/// For [`Result::map_err`]: an unknown object has a separate error page.
fn page_error(site: &Site, visitor: &SignedIn) -> impl Fn(Refusal) -> PageError {
    let (site, visitor) = (site.clone(), visitor.clone());
    move |refusal| match refusal {
        Refusal::NotFound | Refusal::SpaceForbidden => gone(&site, &visitor),
        other => PageError::of(&site)(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_written_as_sentences() {
        assert_eq!(sentence("contents[1].content: must have text"), "Note 2 must have text.");
        assert_eq!(sentence("spaces: must name at most 20"), "Must name at most 20.");
        assert_eq!(sentence("a batch has at most 600 items"), "A batch has at most 600 items.");
        assert_eq!(sentence(""), "");
    }
}
