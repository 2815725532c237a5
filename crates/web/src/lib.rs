//! The pages for people.
//!
//! Pages are rendered here and work without JavaScript: every change is a form with a redirect as response, so that going back or
//! reloading does not repeat it. Scripts only add comfort. The content security policy of every page allows only styles and scripts of
//! this server, and forbids frames.

pub mod account;
pub mod asset;
pub mod audit;
pub mod claim;
mod compressed;
pub mod device;
pub mod docs;
mod error_page;
mod feed;
pub mod flash;
mod form;
mod frame;
mod home;
pub mod knowledge;
mod markdown;
mod moment;
mod network;
mod page_error;
mod proof;
mod query;
mod signed_in;
pub mod signin;
mod site;
mod strip;
pub mod verify;
mod visitor;
mod well_known;

use std::sync::Arc;

use api::HttpState;
use api::browser::BrowserPages;
use api::cookie::Cookies;
use axum::extract::FromRef;
use axum::http::Method;
use axum::routing::{MethodRouter, get, post};
use axum::{Router, middleware};

pub use self::flash::Flash;
pub use self::form::{LargeForms, PageForm};
pub use self::frame::{PageLayout, page};
pub use self::moment::Moment;
pub use self::page_error::{PageError, PageErrorTexts, PageResult};
pub use self::query::{CursorQuery, PageQuery};
pub use self::signed_in::SignedIn;
pub use self::site::Site;
pub use self::visitor::{Visitor, sign_in_path};

/// One page, or the action of one of its forms.
#[derive(Debug)]
pub struct Page {
    /// HTTP method of the page or form.
    pub method: Method,
    /// The path, with `{name}` for parameters.
    pub path: &'static str,
    handler: MethodRouter<HttpState>,
}

/// The router of all pages.
pub fn router(state: &HttpState) -> Router<HttpState> {
    let cookies: Arc<Cookies> = FromRef::from_ref(state);
    let pages = routes().into_iter();
    let router = pages.fold(Router::new(), |router, Page { method: _, path, handler }| router.route(path, handler));
    router.route_layer(middleware::from_fn_with_state(cookies, flash::carry))
}

/// The pages that browsers get from routes of the API.
pub fn for_browsers() -> BrowserPages {
    BrowserPages { home: home::show, error: error_page::show, feed: feed::show }
}

/// Every page of the public listener.
pub fn routes() -> Vec<Page> {
    let mut pages = vec![
        show("/assets/{*path}", get(asset::serve)),
        show("/favicon.ico", get(well_known::icon)),
        show("/apple-touch-icon.png", get(well_known::touch_icon)),
        show("/robots.txt", get(well_known::robots)),
        show("/docs", docs::page()),
        show("/docs/guides", get(docs::guides::show)),
        show("/docs/guides/{*name}", get(docs::guides::show_one)),
        show("/account", get(account::home::show)),
        show("/account/consent", get(account::consent::show)),
        form("/account/consent", post(account::consent::save)),
        form("/account/pause", post(account::pause::change)),
        show("/account/consent/{machine_uuid}", get(account::consent::show_computer)),
        show("/account/activity", get(account::activity::show)),
        show("/account/activity/export", get(account::activity::export::export)),
        show("/account/activity/new", get(account::activity::news::count)),
        show("/account/activity/{event_id}", get(account::activity::event::show)),
        show("/account/costs", get(account::costs::show)),
        show("/account/costs/export", get(account::costs::export)),
        show("/account/sessions", get(account::sessions::show)),
        show("/account/sessions/{id}", get(account::sessions::one::show)),
        show("/account/sessions/{id}/stream", get(account::sessions::live::stream)),
        show("/account/data", get(account::data::show)),
        show("/account/data/export", get(account::data::export)),
        form("/account/close", post(account::data::close)),
        show("/account/closed", get(account::data::closed)),
        show("/account/access", get(account::access::show)),
        form("/account/keys", post(account::access::make_key)),
        form("/account/keys/{id}/revoke", post(account::undo::revoke_key)),
        show("/account/keys/{id}/revoke", get(account::undo::revoke_key_question)),
        form("/account/sessions/others/end", post(account::access::end_other_sessions)),
        form("/account/sessions/{id}/end", post(account::access::end_session)),
        show("/account/webhooks", get(account::webhooks::show)),
        form("/account/webhooks", post(account::webhooks::create)),
        show("/account/webhooks/{id}", get(account::webhooks::show_one)),
        form("/account/webhooks/{id}", post(account::webhooks::save)),
        form("/account/webhooks/{id}/test", post(account::webhooks::test)),
        form("/account/webhooks/{id}/secret", post(account::webhooks::rotate)),
        show("/account/webhooks/{id}/delete", get(account::webhooks::question)),
        form("/account/webhooks/{id}/delete", post(account::webhooks::delete)),
        show("/account/feed", get(account::feed::show)),
        form("/account/feed", post(account::feed::create)),
        form("/account/feed/kinds", post(account::feed::save)),
        form("/account/feed/link", post(account::feed::relink)),
        show("/account/feed/delete", get(account::feed::question)),
        form("/account/feed/delete", post(account::feed::delete)),
        show("/account/audits", get(account::audits::show)),
        form("/account/audits", post(account::audits::create)),
        form("/account/audits/{id}/end", post(account::audits::end)),
        show("/account/rules", get(account::rules::show)),
        form("/account/rules", post(account::rules::create)),
        form("/account/rules/digest", post(account::rules::set_digest)),
        form("/account/rules/{id}/delete", post(account::rules::delete)),
        show("/account/computers/{machine_uuid}", get(account::computer::show)),
        form("/account/computers/{machine_uuid}", post(account::computer::rename)),
        show("/account/agents/{id}", get(account::agent::show)),
        form("/account/agents/{id}", post(account::agent::rename)),
        show("/account/computers/{machine_uuid}/detach", get(account::undo::detach_question)),
        form("/account/computers/{machine_uuid}/detach", post(account::undo::detach)),
        show("/account/agents/{id}/revoke", get(account::undo::revoke_question)),
        form("/account/agents/{id}/revoke", post(account::undo::revoke)),
        show("/verify", get(verify::show)),
        show("/audits/{token}", get(audit::show)),
        show("/audits/{token}/receipt", get(audit::receipt)),
        show("/claim", get(claim::show)),
        form("/claim", post(claim::confirm)),
        show("/device", get(device::show)),
        form("/device", post(device::decide)),
        show("/signin", get(signin::show)),
        form("/signin", post(signin::ask)),
        show("/signin/code", get(signin::show_code)),
        form("/signin/code", post(signin::answer)),
        show("/signin/oidc/{name}", get(signin::oidc::begin)),
        show("/signin/oidc/{name}/callback", get(signin::oidc::callback)),
        form("/signout", post(signin::leave)),
    ];
    pages.extend(knowledge_routes());
    pages
}

fn knowledge_routes() -> Vec<Page> {
    vec![
        show("/knowledge", get(knowledge::home::show)),
        show("/knowledge/search", get(knowledge::home::search)),
        show("/knowledge/library", get(knowledge::library::show)),
        form("/knowledge/library", post(knowledge::selected::change)),
        show("/knowledge/add", get(knowledge::add::show)),
        form("/knowledge/add", post(knowledge::add::add)),
        form("/knowledge/import", post(knowledge::import::import)),
        show("/knowledge/batches/{id}", get(knowledge::batch::show)),
        show("/knowledge/batches/{id}/stream", get(knowledge::live::stream)),
        form("/knowledge/batches/{id}/cancel", post(knowledge::batch::cancel)),
        form("/knowledge/spaces", post(knowledge::spaces::make)),
        show("/knowledge/spaces/{id}", get(knowledge::spaces::show)),
        form("/knowledge/spaces/{id}", post(knowledge::spaces::change)),
        show("/knowledge/spaces/{id}/delete", get(knowledge::spaces::question)),
        form("/knowledge/spaces/{id}/delete", post(knowledge::spaces::delete)),
        show("/knowledge/settings", get(knowledge::settings::show)),
        form("/knowledge/settings", post(knowledge::settings::save)),
        show("/knowledge/memories/{id}", get(knowledge::memory::show)),
        show("/knowledge/memories/{id}/edit", get(knowledge::edit::show)),
        form("/knowledge/memories/{id}/edit", post(knowledge::edit::save)),
        show("/knowledge/memories/{id}/delete", get(knowledge::memory::question)),
        form("/knowledge/memories/{id}/delete", post(knowledge::memory::delete)),
    ]
}

fn show(path: &'static str, handler: MethodRouter<HttpState>) -> Page {
    Page { method: Method::GET, path, handler }
}

fn form(path: &'static str, handler: MethodRouter<HttpState>) -> Page {
    Page { method: Method::POST, path, handler }
}
