//! Spaces: made, named, opened to others, marked, deleted.

use api::named::Named;
use app::services::knowledge::Spaces;
use app::services::knowledge::spaces::SpaceChange;
use app::services::knowledge::spaces::{Contents, DeletedSpace};
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use domain::ids::SpaceId;
use domain::space::{AccessType, Space, SpaceName};
use serde::Deserialize;

use super::settings::{SettingsPages, SpaceDraft};
use super::{TAB, fault, gone, page_error};
use crate::account::AccountOwner;
use crate::{Moment, PageError, PageForm, PageLayout, PageResult, Site, page};

const NAME_FAULT: &str = "Enter a name of 1 to 100 characters on one line.";

#[derive(Template)]
#[template(path = "knowledge/space.html")]
struct SpacePage {
    frame: PageLayout,
    tab: &'static str,
    space: Space,
    /// The input in the field for the name.
    entered: String,
    memories: u64,
    created: Moment,
    fault: Option<&'static str>,
}

impl SpacePage {
    fn is_owner(&self) -> bool {
        self.space.access == AccessType::Owner
    }

    fn is_writable(&self) -> bool {
        self.space.access >= AccessType::Edit
    }
}

/// The form. Unticked boxes are absent.
#[derive(Debug, Deserialize)]
pub struct SpaceForm {
    name: Option<String>,
    public: Option<String>,
    favorite: Option<String>,
}

/// The question before a space is deleted.
#[derive(Template)]
#[template(path = "knowledge/space_delete.html")]
struct SpaceDeletePage {
    frame: PageLayout,
    tab: &'static str,
    space: Space,
    memories: u64,
}

/// What becomes of the memories that are in no other space.
#[derive(Debug, Deserialize)]
pub struct DeleteForm {
    memories: Option<String>,
}

/// `POST /knowledge/spaces`: makes one and goes to its page.
pub async fn make(
    State(pages): State<SettingsPages>,
    State(spaces): State<Spaces>,
    owner: AccountOwner,
    PageForm(form): PageForm<SpaceForm>,
) -> PageResult {
    let site = pages.site();
    let entered = form.name.unwrap_or_default();
    let made = match entered.parse::<SpaceName>() {
        Ok(name) => match spaces.create(&owner.access(), name, form.public.is_some()).await {
            Ok(space) => Ok(space),
            Err(refusal) => match fault(&refusal) {
                Some(fault) => Err(fault),
                None => return Err(PageError::of(site)(refusal)),
            },
        },
        Err(_) => Err(NAME_FAULT.to_owned()),
    };
    match made {
        Ok(space) => Ok(to(site, space.id, "The space is created. Your agents can search it too.")),
        Err(fault) => pages.refused(&owner, SpaceDraft { name: entered, fault: Some(fault) }).await,
    }
}

/// `GET /knowledge/spaces/{id}`
pub async fn show(State(site): State<Site>, owner: AccountOwner, Named(id): Named) -> PageResult {
    let space = seen(&site, &owner, &id).await?;
    shown(&site, &owner, StatusCode::OK, space, None).await
}

/// `POST /knowledge/spaces/{id}`: only the owner changes name and publicity; every member may mark the space as a favourite.
pub async fn change(
    State(site): State<Site>,
    State(spaces): State<Spaces>,
    owner: AccountOwner,
    Named(id): Named,
    PageForm(form): PageForm<SpaceForm>,
) -> PageResult {
    let space = seen(&site, &owner, &id).await?;
    let mut change = SpaceChange::default();
    if space.access == AccessType::Owner {
        let entered = form.name.unwrap_or_default();
        let Ok(name) = entered.parse() else {
            let status = StatusCode::BAD_REQUEST;
            return shown(&site, &owner, status, space, Some((entered, NAME_FAULT))).await;
        };
        change = SpaceChange { name: Some(name), is_public: Some(form.public.is_some()) };
    }
    let done = spaces.change(&owner.access(), space.id, change, Some(form.favorite.is_some())).await;
    done.map_err(page_error(&site, &owner.visitor))?;
    Ok(to(&site, space.id, "Saved. The change is effective from now on."))
}

/// `GET /knowledge/spaces/{id}/delete`
pub async fn question(State(site): State<Site>, owner: AccountOwner, Named(id): Named) -> PageResult {
    let space = seen(&site, &owner, &id).await?;
    if space.access != AccessType::Owner || space.is_default {
        return Err(gone(&site, &owner.visitor));
    }
    let memories = site.spaces.memories(space.id).await.map_err(PageError::of(&site))?;
    let frame = PageLayout::new(&site, Some(&owner.visitor));
    Ok(page(StatusCode::OK, &SpaceDeletePage { frame, tab: TAB, space, memories }))
}

/// `POST /knowledge/spaces/{id}/delete`
pub async fn delete(
    State(site): State<Site>,
    State(spaces): State<Spaces>,
    owner: AccountOwner,
    Named(id): Named,
    PageForm(form): PageForm<DeleteForm>,
) -> PageResult {
    let space = seen(&site, &owner, &id).await?;
    let contents = if form.memories.as_deref() == Some("delete") { Contents::Delete } else { Contents::Move };
    let deleted = spaces.delete(&owner.access(), space.id, contents).await;
    let DeletedSpace { moved, deleted } = deleted.map_err(page_error(&site, &owner.visitor))?;
    let memories = |count: u64| if count == 1 { "1 memory".to_owned() } else { format!("{count} memories") };
    let fate = match (moved, deleted) {
        (0, 0) => String::new(),
        (moved, 0) => format!(" {} moved to the default space.", memories(moved)),
        (0, deleted) => format!(" {} deleted with it.", memories(deleted)),
        (moved, deleted) => {
            format!(" {} deleted with it, {} moved to the default space.", memories(deleted), memories(moved))
        }
    };
    Ok(site.to("/knowledge/settings", format!("The space “{}” is deleted.{fate}", space.name.as_str())))
}

/// A space that the account belongs to.
async fn seen(site: &Site, owner: &AccountOwner, id: &str) -> Result<Space, PageError> {
    let id: SpaceId = id.parse().map_err(|_| gone(site, &owner.visitor))?;
    let space = site.spaces.of_account(id, &owner.account).await.map_err(PageError::of(site))?;
    space.ok_or_else(|| gone(site, &owner.visitor))
}

async fn shown(
    site: &Site,
    owner: &AccountOwner,
    status: StatusCode,
    space: Space,
    wrong: Option<(String, &'static str)>,
) -> PageResult {
    let memories = site.spaces.memories(space.id).await.map_err(PageError::of(site))?;
    let (entered, fault) = match wrong {
        Some((entered, fault)) => (entered, Some(fault)),
        None => (space.name.as_str().to_owned(), None),
    };
    Ok(page(
        status,
        &SpacePage {
            frame: PageLayout::new(site, Some(&owner.visitor)),
            tab: TAB,
            entered,
            memories,
            created: Moment::new(space.created_at, site.ports.clock.now()),
            fault,
            space,
        },
    ))
}

fn to(site: &Site, id: SpaceId, message: &str) -> axum::response::Response {
    site.to(&format!("/knowledge/spaces/{id}"), message)
}
