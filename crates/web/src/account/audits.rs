//! Audit links: links that show a session or a lane to others, with an end.

use api::HttpState;
use api::named::Named;
use app::services::audit_links::{AuditLinkRefusal, AuditLinks, NewAuditLink};
use app::services::confirmation::RecentSignIn;
use askama::Template;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use chrono::TimeDelta;
use domain::audit_link::{AuditLink, AuditSubject, LINKS_MAX};
use domain::lane::Lane;
use domain::usage::Day;
use serde::Deserialize;
use uuid::Uuid;

use super::AccountOwner;
use super::feed::LinkPage;
use super::undo::{ConfirmForm, gone};
use crate::visitor::{sign_in_again, sign_in_path};
use crate::{Moment, PageError, PageForm, PageLayout, PageQuery, PageResult, Site, page};

const PATH: &str = "/account/audits";

/// Days from which a person chooses the end of a link.
const DAYS: [i64; 4] = [1, 7, 30, 90];
/// First day of a lane in an empty form, in days before today.
const LOOK_BACK: i64 = 30;

/// The state of these pages.
#[derive(Debug, Clone)]
pub struct AuditLinkPages {
    site: Site,
    links: AuditLinks,
    recent: RecentSignIn,
}

impl FromRef<HttpState> for AuditLinkPages {
    fn from_ref(state: &HttpState) -> Self {
        Self { site: Site::from_ref(state), links: FromRef::from_ref(state), recent: FromRef::from_ref(state) }
    }
}

#[derive(Template)]
#[template(path = "account/audits.html")]
struct AuditLinksPage {
    frame: PageLayout,
    tab: &'static str,
    are_possible: bool,
    rows: Vec<LinkRow>,
    form: LinkForm,
    lanes: &'static [Lane],
    days: [i64; 4],
    today: Day,
    is_full: bool,
    fault: Option<String>,
    fresh: bool,
    /// URL for signing in again and returning here.
    sign_in: String,
}

struct LinkRow {
    id: String,
    name: String,
    subject: String,
    /// Id of the session, if it shows one.
    session: Option<String>,
    with_content: bool,
    created: Moment,
    expires: Moment,
    last_used: Option<Moment>,
}

/// `?session`: the session that the form is about; a lane without one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct AuditQuery {
    session: String,
}

/// The fields of the form.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LinkForm {
    name: String,
    session: String,
    lane: String,
    first: String,
    days: String,
    content: String,
}

impl LinkForm {
    fn new_link(&self) -> Result<NewAuditLink, String> {
        let name = self.name.parse().map_err(|fault| format!("Name: {fault}."))?;
        let subject = if self.session.is_empty() {
            let lane = self.lane.parse().map_err(|_| "Choose a lane.")?;
            AuditSubject::Lane { lane, first: self.first.parse().map_err(|_| "Choose the first day.")? }
        } else {
            AuditSubject::Session(self.session.parse::<Uuid>().map_err(|_| "There is no such session.")?)
        };
        let days = self.days.parse().ok().filter(|days| DAYS.contains(days)).ok_or("Choose when the link ends.")?;
        Ok(NewAuditLink { name, subject, with_content: !self.content.is_empty(), lasts: TimeDelta::days(days) })
    }

    /// The page with this form.
    fn path(&self) -> String {
        if self.session.is_empty() { PATH.to_owned() } else { format!("{PATH}?session={}", self.session) }
    }
}

impl LinkRow {
    fn of(link: &AuditLink, now: domain::Timestamp) -> Self {
        let (subject, session) = match link.subject {
            AuditSubject::Session(id) => ("A session".to_owned(), Some(id.to_string())),
            AuditSubject::Lane { lane, first } => (format!("{} since {first}", lane.title()), None),
        };
        Self {
            id: link.id.to_string(),
            name: link.name.as_str().to_owned(),
            subject,
            session,
            with_content: link.with_content,
            created: Moment::new(link.created_at, now),
            expires: Moment::new(link.expires_at, now),
            last_used: link.last_used_at.map(|at| Moment::new(at, now)),
        }
    }
}

impl AuditLinkPages {
    async fn draw(&self, owner: &AccountOwner, form: LinkForm, fault: Option<String>) -> PageResult {
        let now = self.site.ports.clock.now();
        let links = self.links.list(&owner.account).await.map_err(PageError::of(&self.site))?;
        let status = if fault.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
        Ok(page(
            status,
            &AuditLinksPage {
                frame: PageLayout::new(&self.site, Some(&owner.visitor)),
                tab: "access",
                are_possible: self.links.are_possible(),
                is_full: links.len() >= LINKS_MAX as usize,
                rows: links.iter().map(|link| LinkRow::of(link, now)).collect(),
                sign_in: sign_in_path(&self.site, &form.path()),
                form,
                lanes: Lane::ALL,
                days: DAYS,
                today: Day::of(now),
                fault,
                fresh: self.recent.is_recent(owner.visitor.signed_in_at),
            },
        ))
    }
}

/// `GET /account/audits`: the links, and the form for a new one.
pub async fn show(
    State(pages): State<AuditLinkPages>,
    owner: AccountOwner,
    PageQuery(AuditQuery { session }): PageQuery<AuditQuery>,
) -> PageResult {
    let session = session.parse().map_or_else(|_| String::new(), |id: Uuid| id.to_string());
    let first = Day::from(Day::of(pages.site.ports.clock.now()).number() - LOOK_BACK).to_string();
    pages.draw(&owner, LinkForm { session, first, days: "7".to_owned(), ..LinkForm::default() }, None).await
}

/// `POST /account/audits`: creates a link and shows it once. It requires a recent sign-in.
pub async fn create(
    State(pages): State<AuditLinkPages>,
    owner: AccountOwner,
    PageForm(form): PageForm<LinkForm>,
) -> PageResult {
    let Ok(recently) = pages.recent.check(owner.visitor.decides()) else {
        return Ok(sign_in_again(&pages.site, PATH));
    };
    let new = match form.new_link() {
        Ok(new) => new,
        Err(fault) => return pages.draw(&owner, form, Some(fault)).await,
    };
    let fault = match pages.links.create(owner.account.clone(), new, recently).await {
        Ok(token) => {
            let frame = PageLayout::new(&pages.site, Some(&owner.visitor));
            let link = format!("{}/audits/{}", pages.site.urls.base, token.expose());
            return Ok(page(
                StatusCode::OK,
                &LinkPage {
                    frame,
                    tab: "access",
                    title: "The audit link",
                    copy: "Copy it now, and send it to the reader.",
                    hint: "The reader needs no account: the link contains a secret.",
                    notice: None,
                    warning: "Anyone who has the link can read what it shows until it ends. End it at any time on the page of your audit links.",
                    back: PATH,
                    link,
                },
            ));
        }
        Err(AuditLinkRefusal::TooMany) => "You have the maximum number of audit links. End one first.",
        Err(AuditLinkRefusal::NotFound) => "Your account has no such session.",
        Err(AuditLinkRefusal::External) => "This server has no audit links.",
        Err(AuditLinkRefusal::Infra(error)) => return Err(PageError::of(&pages.site)(error)),
        Err(AuditLinkRefusal::Log(error)) => {
            tracing::warn!(error = domain::reasons(&error), "an audit link could not be created");
            "The log does not answer at the moment. Try again later."
        }
    };
    pages.draw(&owner, form, Some(fault.to_owned())).await
}

/// `POST /account/audits/{id}/end`: ends a link at once.
pub async fn end(
    State(pages): State<AuditLinkPages>,
    owner: AccountOwner,
    Named(id): Named,
    PageForm(ConfirmForm {}): PageForm<ConfirmForm>,
) -> PageResult {
    let id = id.parse().map_err(|_| gone(&pages.site, &owner.visitor))?;
    let ended = pages.links.end(id, owner.account.clone()).await.map_err(PageError::of(&pages.site))?;
    if !ended {
        return Err(gone(&pages.site, &owner.visitor));
    }
    Ok(pages.site.to(PATH, "The link has ended: it shows nothing any more."))
}
