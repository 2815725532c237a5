//! Adding addresses, notes and the files that a script has read into notes.

use api::error::ApiError;
use app::services::knowledge::{Batches, Refusal};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Redirect};
use domain::batch::Item;
use domain::memory::MemoryType;
use uuid::Uuid;

use super::fault;
use super::home::{Asking, Draft, HomePages, draw};
use crate::account::AccountOwner;
use crate::{LargeForms, PageError, PageForm, PageResult};

/// The fields of the form: `addresses`; any number of `title`, each followed by its `text`; `space` for each space.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sent {
    items: Vec<Item>,
    spaces: Vec<String>,
}

/// `POST /knowledge/add`: takes a batch in and goes to its page.
pub async fn add(
    State(home): State<HomePages>,
    State(forms): State<LargeForms>,
    State(batches): State<Batches>,
    owner: AccountOwner,
    request: Request,
) -> PageResult {
    let site = home.site();
    let PageForm(pairs): PageForm<Vec<(String, String)>> = forms.read(request, &owner.account).await?;
    let sent = Sent::read(&pairs);
    let named: Option<Vec<Uuid>> = sent.spaces.iter().map(|space| space.parse().ok()).collect();
    let begun = match named {
        _ if sent.items.is_empty() => Err(Refusal::invalid("", "paste a URL or write a note")),
        Some(named) => batches.add(&owner.access(), sent.items, &named, None).await,
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
                ..Draft::default()
            };
            draw(&home, &owner, error.code().status(), Asking::default(), draft).await
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

/// People leave out what browsers leave out.
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
