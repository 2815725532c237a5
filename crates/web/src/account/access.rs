//! Signed-in browsers, and keys of the knowledge API.

use std::collections::BTreeMap;

use api::HttpState;
use api::named::Named;
use app::services::api_keys::{ApiKeys, CreateRefusal, NewKey};
use app::services::confirmation::RecentSignIn;
use app::services::feeds::Feeds;
use app::services::knowledge::Spaces;
use app::services::sessions::Session;
use app::services::sessions::Sessions;
use app::services::webhooks::Webhooks;
use askama::Template;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::response::Response;
use chrono::TimeDelta;
use domain::api_key::{ApiKey, ApiKeyName, ApiKeyScope};
use domain::ids::{ApiKeyId, SessionId, SpaceId};
use domain::signin::SignInMethod;
use domain::space::Space;

use super::AccountOwner;
use super::undo::{ConfirmForm, gone};
use crate::visitor::{sign_in_again, sign_in_path};
use crate::{Moment, PageError, PageErrorTexts, PageForm, PageLayout, PageResult, SignedIn, Site, page};

/// Maximum number of spaces in the form for a key.
const SPACES_SHOWN: usize = 50;
const PATH: &str = "/account/access";

/// The state of these pages.
#[derive(Debug, Clone)]
pub struct AccessPages {
    site: Site,
    sessions: Sessions,
    keys: ApiKeys,
    spaces: Spaces,
    recent: RecentSignIn,
    webhooks: Webhooks,
    feeds: Feeds,
}

impl FromRef<HttpState> for AccessPages {
    fn from_ref(state: &HttpState) -> Self {
        Self {
            site: Site::from_ref(state),
            sessions: FromRef::from_ref(state),
            keys: FromRef::from_ref(state),
            spaces: FromRef::from_ref(state),
            recent: FromRef::from_ref(state),
            webhooks: FromRef::from_ref(state),
            feeds: FromRef::from_ref(state),
        }
    }
}

#[derive(Template)]
#[template(path = "account/access.html")]
struct AccessPage {
    frame: PageLayout,
    tab: &'static str,
    sessions: Vec<SessionRow>,
    keys: Vec<KeyRow>,
    /// Keys that were revoked or expired.
    ended: Vec<KeyRow>,
    /// Spaces that a new key can be limited to.
    spaces: Vec<SpaceChoice>,
    /// The id of the next key, so that sending the form twice creates one key.
    next_key: String,
    fault: Option<&'static str>,
    /// Whether the visitor signed in recently enough to create a key.
    fresh: bool,
    /// URL for signing in again and returning here.
    sign_in: String,
    /// Whether the operator has enabled webhooks.
    has_webhooks: bool,
    /// Whether the operator has enabled feeds.
    has_feeds: bool,
}

struct SessionRow {
    id: String,
    browser: String,
    via: String,
    address: Option<String>,
    signed_in: Moment,
    expires: Moment,
    current: bool,
}

struct SpaceChoice {
    id: String,
    name: String,
}

struct KeyRow {
    id: String,
    name: String,
    scopes: String,
    /// The spaces that it is limited to, by name; empty for all.
    spaces: String,
    created: Moment,
    last_used: Option<Moment>,
    expires: Option<Moment>,
    revoked: Option<Moment>,
    good: bool,
}

#[derive(Template)]
#[template(path = "account/key.html")]
struct KeyPage {
    frame: PageLayout,
    tab: &'static str,
    name: String,
    key: String,
    rag_url: String,
}

/// `GET /account/access`
pub async fn show(State(pages): State<AccessPages>, owner: AccountOwner) -> PageResult {
    draw(&pages, &owner, StatusCode::OK, None).await
}

async fn draw(
    pages: &AccessPages,
    owner: &AccountOwner,
    status: StatusCode,
    fault: Option<&'static str>,
) -> PageResult {
    let AccessPages { site, sessions, keys, spaces, recent, webhooks, feeds } = pages;
    let (now, page_error) = (site.ports.clock.now(), PageError::of(site));
    let (sessions, keys, spaces) =
        tokio::join!(sessions.list(owner.visitor.person), keys.list(&owner.account), spaces.list(&owner.account));
    let spaces = spaces.map_err(&page_error)?;
    let session = |session: Session| SessionRow {
        current: session.id == owner.visitor.id,
        id: session.id.to_string(),
        browser: session.user_agent.as_deref().map_or_else(|| "A browser".into(), browser),
        via: match &session.via {
            SignInMethod::Code => "by a mailed code".into(),
            SignInMethod::Oidc(provider) => format!("with {provider}"),
            SignInMethod::Operator => "by the operator".into(),
        },
        address: session.address,
        signed_in: Moment::new(session.created_at, now),
        expires: Moment::new(session.expires_at, now),
    };
    let key = |key: ApiKey| KeyRow {
        good: key.is_good(now),
        id: key.id.to_string(),
        name: key.name.as_str().to_owned(),
        spaces: key.spaces.as_deref().map(|named| names_of(named, &spaces)).unwrap_or_default(),
        scopes: key.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", "),
        created: Moment::new(key.created_at, now),
        last_used: key.last_used_at.map(|at| Moment::new(at, now)),
        expires: key.expires_at.map(|at| Moment::new(at, now)),
        revoked: key.revoked_at.map(|at| Moment::new(at, now)),
    };
    let keys = keys.map_err(&page_error)?.into_iter().map(key);
    let (keys, ended): (Vec<KeyRow>, Vec<KeyRow>) = keys.partition(|key| key.good);
    let choice = |space: &Space| SpaceChoice { id: space.id.to_string(), name: space.name.as_str().to_owned() };
    Ok(page(
        status,
        &AccessPage {
            frame: PageLayout::new(site, Some(&owner.visitor)),
            tab: "access",
            sessions: sessions.map_err(&page_error)?.into_iter().map(session).collect(),
            keys,
            ended,
            spaces: spaces.iter().take(SPACES_SHOWN).map(choice).collect(),
            next_key: site.ports.rng.uuid_v7(now).to_string(),
            fault,
            fresh: recent.is_recent(owner.visitor.signed_in_at),
            sign_in: sign_in_path(site, PATH),
            has_webhooks: webhooks.are_on(),
            has_feeds: feeds.are_on(),
        },
    ))
}

/// The names of spaces. A space that the account can no longer read has no name.
fn names_of(ids: &[SpaceId], spaces: &[Space]) -> String {
    let name = |id: &SpaceId| spaces.iter().find(|space| space.id == *id).map(|space| space.name.as_str());
    let names: Vec<&str> = ids.iter().map(|id| name(id).unwrap_or("a deleted space")).collect();
    names.join(", ")
}

/// A short name of a browser, from its user agent.
fn browser(user_agent: &str) -> String {
    let selected = |names: &[(&str, &'static str)]| {
        names.iter().find(|(mark, _)| user_agent.contains(mark)).map(|(_, name)| *name)
    };
    let name = selected(&[
        ("Edg/", "Edge"),
        ("OPR/", "Opera"),
        ("Firefox/", "Firefox"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
    ]);
    let system = selected(&[
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Android", "Android"),
        ("Windows", "Windows"),
        ("Macintosh", "Mac"),
        ("Linux", "Linux"),
    ]);
    match (name, system) {
        (Some(name), Some(system)) => format!("{name} on {system}"),
        (Some(only), None) | (None, Some(only)) => only.into(),
        (None, None) => user_agent.chars().take(60).collect(),
    }
}

/// The form for a new key: `id`, `name`, `days`, and a field for each ticked permission and space.
type KeyForm = BTreeMap<String, String>;

/// Prefix of the field of a space.
const SPACE_FIELD: &str = "space.";

/// The expiry of a new key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyEnd {
    After(TimeDelta),
    Never,
}

impl KeyEnd {
    /// Parses a choice of the form; `None` for any other value.
    fn chosen(days: &str) -> Option<Self> {
        match days {
            "30" => Some(Self::After(TimeDelta::days(30))),
            "90" => Some(Self::After(TimeDelta::days(90))),
            "never" => Some(Self::Never),
            _ => None,
        }
    }
}

/// `POST /account/keys`: shows the key once. It requires a recent sign-in.
pub async fn make_key(
    State(pages): State<AccessPages>,
    owner: AccountOwner,
    PageForm(form): PageForm<KeyForm>,
) -> PageResult {
    let site = &pages.site;
    let Ok(recently) = pages.recent.check(owner.visitor.decides()) else { return Ok(sign_in_again(site, PATH)) };
    let again = async |fault| draw(&pages, &owner, StatusCode::BAD_REQUEST, Some(fault)).await;
    let field = |name: &str| form.get(name).map_or("", String::as_str);
    let Ok(name) = field("name").parse::<ApiKeyName>() else {
        return again("Give the key a name of 1 to 100 characters.").await;
    };
    let scopes: Vec<ApiKeyScope> =
        ApiKeyScope::ALL.iter().copied().filter(|scope| form.contains_key(scope.as_str())).collect();
    if scopes.is_empty() {
        return again("Select at least one permission.").await;
    }
    let Some(end) = KeyEnd::chosen(field("days")) else {
        return again("Choose when the key expires: in 30 days, in 90 days, or never.").await;
    };
    let Ok(id) = field("id").parse::<ApiKeyId>() else { return again("Send the form again.").await };
    let named = form.keys().filter_map(|name| name.strip_prefix(SPACE_FIELD)).map(str::parse::<SpaceId>);
    let Ok(spaces) = named.collect::<Result<Vec<_>, _>>() else { return again("Choose the spaces again.").await };
    let spaces = (!spaces.is_empty()).then_some(spaces);
    let expires_at = match end {
        KeyEnd::After(time) => Some(site.ports.clock.now() + time),
        KeyEnd::Never => None,
    };
    let new = NewKey { id, account: owner.account.clone(), name, scopes: Some(scopes), spaces, expires_at };
    match pages.keys.create(new, recently).await {
        Ok((key, secret)) => Ok(page(
            StatusCode::OK,
            &KeyPage {
                frame: PageLayout::new(site, Some(&owner.visitor)),
                tab: "access",
                name: key.name.as_str().to_owned(),
                key: secret.expose().to_owned(),
                rag_url: site.urls.rag.clone(),
            },
        )),
        Err(CreateRefusal::SpaceUnreadable { .. }) => again("One of these spaces is not yours any more.").await,
        Err(CreateRefusal::SpaceCount) => again("A key is for at most 100 spaces.").await,
        Err(CreateRefusal::TooMany) => again("You have the maximum number of API keys. Revoke one first.").await,
        Err(CreateRefusal::AlreadyCreated) => Err(PageError::shown(
            site,
            Some(&owner.visitor),
            StatusCode::CONFLICT,
            PageErrorTexts {
                title: "This key was already created",
                text: "The form was sent twice. The key was shown the first time, and it cannot be shown again.",
                next: "If you did not store it, revoke it and create another.",
                link: "/account/access".into(),
                label: "To your keys",
            },
        )),
        Err(refusal) => Err(PageError::of(site)(refusal)),
    }
}

/// `POST /account/sessions/{id}/end`
pub async fn end_session(
    State(site): State<Site>,
    State(sessions): State<Sessions>,
    visitor: SignedIn,
    Named(id): Named,
    PageForm(ConfirmForm {}): PageForm<ConfirmForm>,
) -> PageResult {
    let id: SessionId = id.parse().map_err(|_| gone(&site, &visitor))?;
    let ended = sessions.end(id, visitor.person).await.map_err(PageError::of(&site))?;
    if ended { Ok(back(&site, "The browser is signed out.")) } else { Err(gone(&site, &visitor)) }
}

/// `POST /account/sessions/others/end`: every browser but this one.
pub async fn end_other_sessions(
    State(site): State<Site>,
    State(sessions): State<Sessions>,
    visitor: SignedIn,
    PageForm(ConfirmForm {}): PageForm<ConfirmForm>,
) -> PageResult {
    sessions.end_others(visitor.id, visitor.person).await.map_err(PageError::of(&site))?;
    Ok(back(&site, "All other browsers are signed out."))
}

/// Redirects to this page, with a message about the change.
pub(super) fn back(site: &Site, said: &str) -> Response {
    site.to(PATH, said)
}

#[cfg(test)]
mod tests {
    use super::{KeyEnd, browser};

    #[test]
    fn a_key_never_ends_only_when_that_is_chosen() {
        assert_eq!(KeyEnd::chosen("never"), Some(KeyEnd::Never));
        assert!(["30", "90"].into_iter().all(|days| matches!(KeyEnd::chosen(days), Some(KeyEnd::After(_)))));
        for other in ["", "0", "7", "Never", " never", "-1", "90d"] {
            assert_eq!(KeyEnd::chosen(other), None, "{other:?}");
        }
    }

    #[test]
    fn browsers_are_named_as_people_name_them() {
        let chrome =
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36";
        assert_eq!(browser(chrome), "Chrome on Linux");
        let safari =
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1 Version/17.0 Mobile Safari/604.1";
        assert_eq!(browser(safari), "Safari on iPhone");
        assert_eq!(browser("curl/8.0"), "curl/8.0");
    }
}
