//! Spaces: made, named, opened to others, marked.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use domain::ids::SpaceId;
use domain::space::{AccessType, Space, SpaceName};
use serde::Deserialize;
use store::space::SpaceChange;

use super::add::Draft;
use super::home::{Asking, draw};
use super::{TAB, fault, gone, page_error};
use crate::app::App;
use crate::http::knowledge::spaces::{change_as, make as make_space};
use crate::http::named::Named;
use crate::web::account::Owner;
use crate::web::{Moment, PageError, PageForm, PageLayout, PageQuery, PageResult, page};

const NAME_FAULT: &str = "Give it a name of 1 to 100 characters, in one line.";

#[derive(Template)]
#[template(path = "knowledge/space.html")]
struct SpacePage {
    frame: PageLayout,
    tab: &'static str,
    space: Space,
    /// What stands in the field for the name.
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

/// What the form sends; a box that is not ticked sends nothing.
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
pub async fn make(State(app): State<App>, owner: Owner, PageForm(form): PageForm<SpaceForm>) -> PageResult {
    let entered = form.name.unwrap_or_default();
    let made = match entered.parse::<SpaceName>() {
        Ok(name) => match make_space(&app, &owner.reader(), name, form.public.is_some()).await {
            Ok(space) => Ok(space),
            Err(error) => Err(fault(&error).ok_or_else(|| PageError::api(&app, &error))?),
        },
        Err(_) => Err(NAME_FAULT.to_owned()),
    };
    match made {
        Ok(space) => Ok(to(&app, space.id, "made")),
        Err(fault) => {
            let draft = Draft { space_name: entered, space_fault: Some(fault), ..Draft::default() };
            draw(&app, &owner, StatusCode::BAD_REQUEST, Asking::default(), draft).await
        }
    }
}

/// `GET /knowledge/spaces/{id}`
pub async fn show(
    State(app): State<App>,
    owner: Owner,
    Named(id): Named,
    PageQuery(told): PageQuery<SavedQuery>,
) -> PageResult {
    let space = seen(&app, &owner, &id).await?;
    let saved = told.saved.as_deref().map(|saved| match saved {
        "made" => "The space is made. What you add to it, your agents find as well.",
        _ => "Saved, and in force from now on.",
    });
    shown(&app, &owner, StatusCode::OK, space, saved, None).await
}

/// `POST /knowledge/spaces/{id}`: name and publicity are the owner's to change, the mark is for whoever belongs to it.
pub async fn change(
    State(app): State<App>,
    owner: Owner,
    Named(id): Named,
    PageForm(form): PageForm<SpaceForm>,
) -> PageResult {
    let space = seen(&app, &owner, &id).await?;
    let mut change = SpaceChange::default();
    if space.access == AccessType::Owner {
        let entered = form.name.unwrap_or_default();
        let Ok(name) = entered.parse() else {
            let status = StatusCode::BAD_REQUEST;
            return shown(&app, &owner, status, space, None, Some((entered, NAME_FAULT))).await;
        };
        change = SpaceChange { name: Some(name), is_public: Some(form.public.is_some()) };
    }
    let done = change_as(&app, &owner.reader(), space.id, change, Some(form.favorite.is_some())).await;
    done.map_err(page_error(&app, &owner.visitor))?;
    Ok(to(&app, space.id, "changed"))
}

/// A space that the account belongs to.
async fn seen(app: &App, owner: &Owner, id: &str) -> Result<Space, PageError> {
    let id: SpaceId = id.parse().map_err(|_| gone(app, &owner.visitor))?;
    let seen = app.store.spaces_readable(&[id], &owner.account).await.map_err(PageError::store(app))?;
    seen.into_iter().next().ok_or_else(|| gone(app, &owner.visitor))
}

async fn shown(
    app: &App,
    owner: &Owner,
    status: StatusCode,
    space: Space,
    saved: Option<&'static str>,
    wrong: Option<(String, &'static str)>,
) -> PageResult {
    let memories = app.store.memories_in_space(space.id).await.map_err(PageError::store(app))?;
    let (entered, fault) = match wrong {
        Some((entered, fault)) => (entered, Some(fault)),
        None => (space.name.as_str().to_owned(), None),
    };
    Ok(page(
        status,
        &SpacePage {
            frame: PageLayout::new(app, Some(&owner.visitor)),
            tab: TAB,
            entered,
            memories,
            created: Moment::new(space.created_at, app.clock.now()),
            saved,
            fault,
            space,
        },
    ))
}

fn to(app: &App, id: SpaceId, saved: &str) -> axum::response::Response {
    Redirect::to(&format!("{}/knowledge/spaces/{id}?saved={saved}", app.root_path())).into_response()
}
