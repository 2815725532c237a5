//! Changing one memory: title, tags, spaces, and the text of a note.

use api::named::Named;
use app::services::knowledge::Refusal;
use app::services::knowledge::edit::RequestedEdit;
use app::services::knowledge::memories::Memory;
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use domain::space::AccessType;
use uuid::Uuid;

use super::found::titled;
use super::memory::MemoryPages;
use super::{TAB, fault, page_error};
use crate::account::AccountOwner;
use crate::{LargeForms, PageError, PageForm, PageLayout, PageResult, page};

#[derive(Template)]
#[template(path = "knowledge/edit.html")]
struct EditPage {
    frame: PageLayout,
    tab: &'static str,
    id: String,
    heading: String,
    title: String,
    tags: String,
    /// The text of a note; `None` for a page, because its text comes from the web.
    text: Option<String>,
    places: Vec<Place>,
    fault: Option<String>,
}

/// A space that the memory is in, or could be.
struct Place {
    id: Uuid,
    name: String,
    is_chosen: bool,
}

/// Values that the form shows again.
struct Entered {
    title: String,
    tags: String,
    text: Option<String>,
    spaces: Vec<Uuid>,
}

/// `GET /knowledge/memories/{id}/edit`
pub async fn show(State(pages): State<MemoryPages>, owner: AccountOwner, Named(id): Named) -> PageResult {
    let memory = pages.owned(&owner, &id).await?;
    let tags: Vec<String> = memory.tags.iter().map(ToString::to_string).collect();
    let entered = Entered {
        title: memory.title.clone(),
        tags: tags.join(", "),
        text: memory.url.is_none().then(|| memory.content.clone()),
        spaces: memory.spaces.iter().map(domain::ids::SpaceId::as_uuid).collect(),
    };
    draw(&pages, &owner, &memory, entered, StatusCode::OK, None).await
}

/// `POST /knowledge/memories/{id}/edit`
pub async fn save(
    State(pages): State<MemoryPages>,
    State(forms): State<LargeForms>,
    owner: AccountOwner,
    Named(id): Named,
    request: axum::extract::Request,
) -> PageResult {
    let site = &pages.site;
    let memory = pages.owned(&owner, &id).await?;
    let PageForm(pairs): PageForm<Vec<(String, String)>> = forms.read(request, &owner.account).await?;
    let field = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let entered = Entered {
        title: field("title").unwrap_or_default(),
        tags: field("tags").unwrap_or_default(),
        text: field("text").filter(|_| memory.url.is_none()),
        spaces: pairs.iter().filter(|(name, _)| name == "space").filter_map(|(_, id)| id.parse().ok()).collect(),
    };
    let tags = entered.tags.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect();
    let change = RequestedEdit {
        title: Some(entered.title.clone()),
        // Browsers send text with the line ends of DOS.
        content: entered.text.as_ref().map(|text| text.replace("\r\n", "\n")),
        tags: Some(tags),
        spaces: Some(entered.spaces.clone()),
    };
    match pages.memories.edit(&owner.access(), memory.id, &change).await {
        Ok(memory) => Ok(site.to(&format!("/knowledge/memories/{}", memory.id), "The memory is saved.")),
        Err(refusal) => {
            let fault = match &refusal {
                Refusal::Invalid { path, .. } if path == "spaces" => Some("Choose at least one space.".to_owned()),
                Refusal::Invalid { path, rule } if path.starts_with("tags[") => {
                    Some(format!("A tag is not valid: {rule}."))
                }
                Refusal::Invalid { path, rule } => Some(format!("The {path} {rule}.")),
                other => fault(other),
            };
            match fault {
                Some(fault) => draw(&pages, &owner, &memory, entered, StatusCode::BAD_REQUEST, Some(fault)).await,
                None => Err(page_error(site, &owner.visitor)(refusal)),
            }
        }
    }
}

async fn draw(
    pages: &MemoryPages,
    owner: &AccountOwner,
    memory: &Memory,
    entered: Entered,
    status: StatusCode,
    fault: Option<String>,
) -> PageResult {
    let site = &pages.site;
    let spaces = pages.spaces.list(&owner.account).await.map_err(PageError::of(site))?;
    let places =
        spaces.into_iter().filter(|space| space.access >= AccessType::Edit || memory.spaces.contains(&space.id));
    let places = places.map(|space| Place {
        id: space.id.as_uuid(),
        is_chosen: entered.spaces.contains(&space.id.as_uuid()),
        name: space.name.as_str().to_owned(),
    });
    Ok(page(
        status,
        &EditPage {
            frame: PageLayout::new(site, Some(&owner.visitor)),
            tab: TAB,
            id: memory.id.to_string(),
            heading: titled(memory.title.clone()),
            title: entered.title,
            tags: entered.tags,
            text: entered.text,
            places: places.collect(),
            fault,
        },
    ))
}
