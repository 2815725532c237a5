//! Spaces: made, named, opened to others, marked.

use api::named::Named;
use app::services::knowledge::Spaces;
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use domain::ids::SpaceId;
use domain::space::{AccessType, Space, SpaceName};
use serde::Deserialize;
use store::space::SpaceChange;

use super::home::{Asking, Draft, HomePages, draw};
use super::{TAB, fault, gone, page_error};
use crate::account::AccountOwner;
use crate::{Moment, PageError, PageForm, PageLayout, PageQuery, PageResult, Site, page};

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
    saved: Option<&'static str>,
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

/// `?saved=…`
#[derive(Debug, Deserialize)]
pub struct SavedQuery {
    saved: Option<String>,
}

/// `POST /knowledge/spaces`: makes one and goes to its page.
pub async fn make(
    State(home): State<HomePages>,
    State(spaces): State<Spaces>,
    owner: AccountOwner,
    PageForm(form): PageForm<SpaceForm>,
) -> PageResult {
    let entered = form.name.unwrap_or_default();
    let made = match entered.parse::<SpaceName>() {
        Ok(name) => match spaces.create(&owner.access(), name, form.public.is_some()).await {
            Ok(space) => Ok(space),
            Err(refusal) => match fault(&refusal) {
                Some(fault) => Err(fault),
                None => return Err(PageError::of(home.site())(refusal)),
            },
        },
        Err(_) => Err(NAME_FAULT.to_owned()),
    };
    match made {
        Ok(space) => Ok(to(home.site(), space.id, "made")),
        Err(fault) => {
            let draft = Draft { space_name: entered, space_fault: Some(fault), ..Draft::default() };
            draw(&home, &owner, StatusCode::BAD_REQUEST, Asking::default(), draft).await
        }
    }
}

/// `GET /knowledge/spaces/{id}`
pub async fn show(
    State(site): State<Site>,
    owner: AccountOwner,
    Named(id): Named,
    PageQuery(query): PageQuery<SavedQuery>,
) -> PageResult {
    let space = seen(&site, &owner, &id).await?;
    let saved = query.saved.as_deref().map(|saved| match saved {
        "made" => "The space is created. Your agents can search it too.",
        _ => "Saved and effective from now on.",
    });
    shown(&site, &owner, StatusCode::OK, space, saved, None).await
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
            return shown(&site, &owner, status, space, None, Some((entered, NAME_FAULT))).await;
        };
        change = SpaceChange { name: Some(name), is_public: Some(form.public.is_some()) };
    }
    let done = spaces.change(&owner.access(), space.id, change, Some(form.favorite.is_some())).await;
    done.map_err(page_error(&site, &owner.visitor))?;
    Ok(to(&site, space.id, "changed"))
}

/// A space that the account belongs to.
async fn seen(site: &Site, owner: &AccountOwner, id: &str) -> Result<Space, PageError> {
    let id: SpaceId = id.parse().map_err(|_| gone(site, &owner.visitor))?;
    let seen = site.ports.store.spaces_readable(&[id], &owner.account).await.map_err(PageError::store(site))?;
    seen.into_iter().next().ok_or_else(|| gone(site, &owner.visitor))
}

async fn shown(
    site: &Site,
    owner: &AccountOwner,
    status: StatusCode,
    space: Space,
    saved: Option<&'static str>,
    wrong: Option<(String, &'static str)>,
) -> PageResult {
    let memories = site.ports.store.memories_in_space(space.id).await.map_err(PageError::store(site))?;
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
            saved,
            fault,
            space,
        },
    ))
}

fn to(site: &Site, id: SpaceId, saved: &str) -> axum::response::Response {
    Redirect::to(&format!("{}/knowledge/spaces/{id}?saved={saved}", site.urls.root_path())).into_response()
}
