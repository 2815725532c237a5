//! Several memories of the library at a time: moved, tagged, deleted.

use app::services::knowledge::Refusal;
use app::services::knowledge::edit::RequestedEdit;
use app::services::knowledge::memories::Memory;
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use domain::ids::{MemoryId, SpaceId};
use uuid::Uuid;

use super::found::titled;
use super::library::{LibraryPages, LibraryQuery};
use super::{TAB, fault, page_error};
use crate::account::AccountOwner;
use crate::{PageError, PageErrorTexts, PageForm, PageLayout, PageQuery, PageResult, Site, page};

/// Maximum number of memories in one request.
const SELECTED_MAX: usize = 100;

/// The question before several memories are deleted.
#[derive(Template)]
#[template(path = "knowledge/forget.html")]
struct ForgetPage {
    frame: PageLayout,
    tab: &'static str,
    memories: Vec<(String, String)>,
    /// The query of the list's URL.
    list: String,
}

/// The operation on the selected memories.
enum Action {
    Move(Uuid),
    Tag(Vec<String>),
    Question,
    Delete,
}

/// `POST /knowledge/library?…`: the fields `id`, once for each memory, `action`, and `space` or `tags`.
pub async fn change(
    State(pages): State<LibraryPages>,
    owner: AccountOwner,
    PageQuery(query): PageQuery<LibraryQuery>,
    PageForm(pairs): PageForm<Vec<(String, String)>>,
) -> PageResult {
    let site = &pages.site;
    let field = |name: &str| pairs.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.as_str());
    let ids: Vec<MemoryId> = pairs
        .iter()
        .filter(|(name, _)| name == "id")
        .filter_map(|(_, id)| id.parse().ok())
        .take(SELECTED_MAX)
        .collect();
    let back = |message: String| site.to(&format!("/knowledge/library{}", query.end()), message);
    let tags = field("tags").split(',').map(str::trim).filter(|tag| !tag.is_empty());
    let tags: Vec<String> = tags.map(str::to_owned).collect();
    let action = match field("action") {
        "move" => field("space").parse().map(Action::Move).map_err(|_| "Choose the space to move to."),
        "tag" if tags.is_empty() => Err("Enter a tag."),
        "tag" => Ok(Action::Tag(tags)),
        "forget" => Ok(Action::Question),
        "delete" => Ok(Action::Delete),
        _ => return Err(unknown(site, &owner, &query)),
    };
    let action = match action {
        _ if ids.is_empty() => return Ok(back("Nothing was changed: no memory was selected.".to_owned())),
        Err(advice) => return Ok(back(format!("Nothing was changed. {advice}"))),
        Ok(action) => action,
    };
    // Memories of other accounts are left out here, so that the counts below are correct.
    let own = pages.memories.of_account(&ids, &owner.account).await.map_err(PageError::of(site))?;
    if matches!(action, Action::Question) {
        return Ok(question(&pages, &owner, own, &query));
    }
    let (mut changed, mut reason) = (0_usize, None);
    for memory in &own {
        match apply(&pages, &owner, memory, &action, &query).await {
            Ok(()) => changed += 1,
            Err(Refusal::NotFound) => {}
            Err(refusal) => match fault(&refusal) {
                Some(fault) => reason = Some(fault),
                None => return Err(page_error(site, &owner.visitor)(refusal)),
            },
        }
    }
    let verb = match action {
        Action::Move(_) => "moved",
        Action::Tag(_) => "tagged",
        Action::Question | Action::Delete => "deleted",
    };
    let count = if changed == 1 { "1 memory".to_owned() } else { format!("{changed} memories") };
    let left = match ids.len() - changed {
        0 => String::new(),
        left => format!(" {left} could not be changed. {}", reason.unwrap_or_default()),
    };
    Ok(back(format!("{count} {verb}.{left}").trim_end().to_owned()))
}

/// The refusal of an unknown action, from an older page or a program.
fn unknown(site: &Site, owner: &AccountOwner, query: &LibraryQuery) -> PageError {
    PageError::shown(
        site,
        Some(&owner.visitor),
        StatusCode::BAD_REQUEST,
        PageErrorTexts {
            title: "The form does not say what to do",
            text: "It names no action, or one that this server does not know. Nothing was changed.",
            next: "Open the list again, select the memories and choose an action.",
            link: format!("/knowledge/library{}", query.end()).into(),
            label: "Your memories",
        },
    )
}

fn question(pages: &LibraryPages, owner: &AccountOwner, own: Vec<Memory>, query: &LibraryQuery) -> Response {
    let memories = own.into_iter().map(|memory| (memory.id.to_string(), titled(memory.title))).collect();
    let frame = PageLayout::new(&pages.site, Some(&owner.visitor));
    page(StatusCode::OK, &ForgetPage { frame, tab: TAB, memories, list: query.end() })
}

async fn apply(
    pages: &LibraryPages,
    owner: &AccountOwner,
    memory: &Memory,
    action: &Action,
    query: &LibraryQuery,
) -> Result<(), Refusal> {
    let access = owner.access();
    let change = match action {
        Action::Delete | Action::Question => return pages.memories.delete(&access, memory.id).await,
        Action::Move(space) => {
            RequestedEdit { spaces: Some(after(memory, &query.space, *space)), ..RequestedEdit::default() }
        }
        Action::Tag(new) => {
            let tags = memory.tags.iter().map(ToString::to_string).chain(new.iter().cloned()).collect();
            RequestedEdit { tags: Some(tags), ..RequestedEdit::default() }
        }
    };
    pages.memories.edit(&access, memory.id, &change).await.map(drop)
}

/// The spaces of a memory after it moved from the listed space, or from all spaces.
fn after(memory: &Memory, from: &str, to: Uuid) -> Vec<Uuid> {
    let stays = |space: &&SpaceId| !from.is_empty() && space.to_string() != from && space.as_uuid() != to;
    memory.spaces.iter().filter(stays).map(SpaceId::as_uuid).chain([to]).collect()
}
