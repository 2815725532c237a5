//! The data of an account: the complete download, and closing the account.

use std::sync::Arc;

use api::HttpState;
use api::cookie::{Cookie, Cookies};
use api::knowledge::stream::EventStreams;
use app::services::closing::Closings;
use app::services::confirmation::RecentSignIn;
use app::services::export::{AccountExport, ExportError};
use app::services::knowledge::credential::Credential;
use askama::Template;
use axum::body::Body;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;

use super::AccountOwner;
use crate::visitor::{sign_in_again, sign_in_path};
use crate::{PageError, PageForm, PageLayout, PageResult, Site, page};

const PATH: &str = "/account/data";

/// The state of these pages.
#[derive(Debug, Clone)]
pub struct DataPages {
    site: Site,
    recent: RecentSignIn,
    export: AccountExport,
    closings: Closings,
    streams: EventStreams,
    cookies: Arc<Cookies>,
}

impl FromRef<HttpState> for DataPages {
    fn from_ref(state: &HttpState) -> Self {
        Self {
            site: Site::from_ref(state),
            recent: FromRef::from_ref(state),
            export: FromRef::from_ref(state),
            closings: FromRef::from_ref(state),
            streams: FromRef::from_ref(state),
            cookies: FromRef::from_ref(state),
        }
    }
}

#[derive(Template)]
#[template(path = "account/data.html")]
struct DataPage {
    frame: PageLayout,
    tab: &'static str,
    /// Whether the visitor signed in recently enough.
    fresh: bool,
    /// URL for signing in again and returning here.
    sign_in: String,
    fault: Option<&'static str>,
}

#[derive(Template)]
#[template(path = "account/closed.html")]
struct ClosedPage {
    frame: PageLayout,
}

/// `GET /account/data`
pub async fn show(State(pages): State<DataPages>, owner: AccountOwner) -> PageResult {
    Ok(draw(&pages, &owner, StatusCode::OK, None))
}

fn draw(
    pages: &DataPages,
    owner: &AccountOwner,
    status: StatusCode,
    fault: Option<&'static str>,
) -> axum::response::Response {
    let site = &pages.site;
    page(
        status,
        &DataPage {
            frame: PageLayout::new(site, Some(&owner.visitor)),
            tab: "home",
            fresh: pages.recent.is_recent(owner.visitor.signed_in_at),
            sign_in: sign_in_path(site, PATH),
            fault,
        },
    )
}

/// `GET /account/data/export`: all data of the account, one JSON object per line. It requires a recent sign-in.
pub async fn export(State(pages): State<DataPages>, owner: AccountOwner) -> PageResult {
    if pages.recent.check(owner.visitor.decides()).is_err() {
        return Ok(sign_in_again(&pages.site, PATH));
    }
    let place = pages.streams.place(&owner.account).map_err(PageError::of(&pages.site))?;
    let lines = pages.export.lines(owner.account.clone(), owner.visitor.person);
    let credential = Credential::Session(owner.visitor.session);
    let lines = pages.streams.guarded(place, credential, lines, Err(ExportError::SignedOut));
    let name = format!("attachment; filename=\"attache-{}.ndjson\"", owner.account);
    let headers = [
        (CONTENT_TYPE, "application/x-ndjson".to_owned()),
        (CONTENT_DISPOSITION, name),
        (CACHE_CONTROL, "no-store".to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    Ok((headers, Body::from_stream(lines)).into_response())
}

/// The form that closes the account: the e-mail address, typed.
#[derive(Debug, Deserialize)]
pub struct CloseForm {
    email: String,
}

/// `POST /account/close`: closes the account and signs out. It requires a recent sign-in.
pub async fn close(
    State(pages): State<DataPages>,
    owner: AccountOwner,
    PageForm(form): PageForm<CloseForm>,
) -> PageResult {
    let site = &pages.site;
    let Ok(recently) = pages.recent.check(owner.visitor.decides()) else { return Ok(sign_in_again(site, PATH)) };
    if !form.email.trim().eq_ignore_ascii_case(owner.visitor.email.as_str()) {
        let fault = "This is not the e-mail address of your account. The account is not closed.";
        return Ok(draw(&pages, &owner, StatusCode::BAD_REQUEST, Some(fault)));
    }
    let close = pages.closings.close(owner.account.clone(), owner.visitor.email.clone(), recently);
    close.await.map_err(PageError::of(site))?;
    let mut response = Redirect::to(&format!("{}/account/closed", site.urls.root_path())).into_response();
    pages.cookies.clear(Cookie::Session, &mut response);
    Ok(response)
}

/// `GET /account/closed`: the steps after an account was closed; the same for all visitors.
pub async fn closed(State(site): State<Site>) -> PageResult {
    Ok(page(StatusCode::OK, &ClosedPage { frame: PageLayout::new(&site, None) }))
}
