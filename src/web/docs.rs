//! `/docs`: the machine-readable description, for people.

mod reference;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

pub use self::reference::{DocumentedError, Group, Member, Operation, Part, Reference, Success};
use super::{PageLayout, Visitor, page};
use crate::app::App;

#[derive(Template)]
#[template(path = "docs.html")]
struct DocsPage<'d> {
    frame: PageLayout,
    reference: &'d Reference,
    base_url: &'d str,
}

/// `GET /docs`
pub async fn show(State(app): State<App>, Visitor(visitor): Visitor) -> Response {
    let frame = PageLayout::new(&app, visitor.as_ref());
    let reference = app.description.reference();
    page(StatusCode::OK, &DocsPage { frame, reference, base_url: &app.base_url })
}
