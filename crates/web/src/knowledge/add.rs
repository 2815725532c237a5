//! Add: URLs, notes, the files that a script has read into notes, and an export.

use api::HttpState;
use api::error::ApiError;
use app::services::knowledge::{Batches, Refusal, Spaces};
use askama::Template;
use axum::extract::{FromRef, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use domain::batch::Item;
use domain::memory::MemoryType;
use serde::Deserialize;
use uuid::Uuid;

use super::row::{BatchRow, SpaceRow};
use super::{TAB, fault};
use crate::account::AccountOwner;
use crate::{LargeForms, PageError, PageForm, PageLayout, PageQuery, PageResult, Site, page};

/// Maximum number of listed batches.
const BATCHES_LISTED: usize = 8;

/// The state of this page.
#[derive(Debug, Clone)]
pub struct AddPages {
    site: Site,
    spaces: Spaces,
    batches: Batches,
}

impl FromRef<HttpState> for AddPages {
    fn from_ref(state: &HttpState) -> Self {
        Self { site: Site::from_ref(state), spaces: FromRef::from_ref(state), batches: FromRef::from_ref(state) }
    }
}

#[derive(Template)]
#[template(path = "knowledge/add.html")]
struct AddPage {
    frame: PageLayout,
    tab: &'static str,
    view: &'static str,
    rag_url: String,
    note_bytes_max: usize,
    spaces: Vec<SpaceRow>,
    /// Name of the space for items without a named space.
    default_space: String,
    batches: Vec<BatchRow>,
    draft: Draft,
}

/// The input in the form.
#[derive(Debug, Default)]
struct Draft {
    addresses: String,
    title: String,
    text: String,
    space: String,
    fault: Option<String>,
}

/// `?space=…`
#[derive(Debug, Deserialize)]
pub struct IntoQuery {
    space: Option<String>,
}

/// `GET /knowledge/add`
pub async fn show(
    State(pages): State<AddPages>,
    owner: AccountOwner,
    PageQuery(query): PageQuery<IntoQuery>,
) -> PageResult {
    let draft = Draft { space: query.space.unwrap_or_default(), ..Draft::default() };
    draw(&pages, &owner, StatusCode::OK, draft).await
}

async fn draw(pages: &AddPages, owner: &AccountOwner, status: StatusCode, draft: Draft) -> PageResult {
    let site = &pages.site;
    let (now, failed) = (site.ports.clock.now(), PageError::of(site));
    let (spaces, batches) =
        tokio::join!(pages.spaces.list(&owner.account), pages.batches.list(&owner.account, BATCHES_LISTED),);
    let (spaces, default_space) = SpaceRow::all(spaces.map_err(&failed)?, owner);
    Ok(page(
        status,
        &AddPage {
            frame: PageLayout::new(site, Some(&owner.visitor)),
            tab: TAB,
            view: "add",
            rag_url: site.urls.rag.clone(),
            note_bytes_max: pages.batches.note_bytes_max(),
            spaces,
            default_space,
            batches: batches.map_err(&failed)?.iter().map(|batch| BatchRow::of(batch, now)).collect(),
            draft,
        },
    ))
}

/// The fields of the form: `addresses`; any number of `title`, each followed by its `text`; `space` for each space.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sent {
    items: Vec<Item>,
    spaces: Vec<String>,
}

/// `POST /knowledge/add`: submits a batch and redirects to its page.
pub async fn add(
    State(pages): State<AddPages>,
    State(forms): State<LargeForms>,
    owner: AccountOwner,
    request: Request,
) -> PageResult {
    let site = &pages.site;
    let PageForm(pairs): PageForm<Vec<(String, String)>> = forms.read(request, &owner.account).await?;
    let sent = Sent::read(&pairs);
    let named: Option<Vec<Uuid>> = sent.spaces.iter().map(|space| space.parse().ok()).collect();
    let begun = match named {
        _ if sent.items.is_empty() => Err(Refusal::invalid("", "paste a URL or write a note")),
        Some(named) => pages.batches.add(&owner.access(), sent.items, &named, None).await,
        None => Err(Refusal::SpaceForbidden),
    };
    match begun {
        Ok(feed) => {
            let path = format!("{}/knowledge/batches/{}", site.urls.root_path(), feed.batch());
            Ok(Redirect::to(&path).into_response())
        }
        Err(refusal) => {
            let fault = fault(&refusal);
            let error = ApiError::from(refusal);
            let fault = fault.ok_or_else(|| PageError::api(site, &error))?;
            let first = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
            let draft = Draft {
                addresses: first("addresses").unwrap_or_default(),
                title: first("title").unwrap_or_default(),
                text: first("text").unwrap_or_default(),
                space: first("space").unwrap_or_default(),
                fault: Some(fault),
            };
            draw(&pages, &owner, error.code().status(), draft).await
        }
    }
}

impl Sent {
    fn read(pairs: &[(String, String)]) -> Self {
        let (mut urls, mut notes, mut spaces, mut heading) = (Vec::new(), Vec::new(), Vec::new(), None);
        for (name, value) in pairs {
            match name.as_str() {
                "addresses" => urls.extend(value.split_whitespace().map(|word| Item::Url(address(word)))),
                "title" => heading = Some(value.trim().to_owned()).filter(|title| !title.is_empty()),
                "text" => {
                    let title = heading.take();
                    if !value.trim().is_empty() {
                        notes.push(Item::Note { content: value.clone(), title, kind: MemoryType::Note });
                    }
                }
                "space" if !value.is_empty() => spaces.push(value.clone()),
                _ => {}
            }
        }
        urls.extend(notes);
        Self { items: urls, spaces }
    }
}

/// Adds `https://` to a URL without a scheme, as browsers do.
fn address(word: &str) -> String {
    if word.contains("://") { word.to_owned() } else { format!("https://{word}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_as_addresses_and_notes() {
        let pairs = [
            ("addresses", " example.com/a\r\n\r\nhttp://b.example/ ftp://c.example"),
            ("title", " First "),
            ("text", "one"),
            ("title", ""),
            ("text", "two"),
            ("title", "empty"),
            ("text", " \r\n"),
            ("text", "three"),
            ("space", ""),
            ("space", "x"),
            ("other", "y"),
        ];
        let pairs: Vec<(String, String)> =
            pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let note = |content: &str, title: Option<&str>| Item::Note {
            content: content.into(),
            title: title.map(Into::into),
            kind: MemoryType::Note,
        };
        let items = vec![
            Item::Url("https://example.com/a".into()),
            Item::Url("http://b.example/".into()),
            Item::Url("ftp://c.example".into()),
            note("one", Some("First")),
            note("two", None),
            note("three", None),
        ];
        assert_eq!(Sent::read(&pairs), Sent { items, spaces: vec!["x".into()] });
        assert_eq!(Sent::read(&[]), Sent::default());
    }
}
