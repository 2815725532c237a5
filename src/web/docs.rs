//! `/docs`: the machine-readable description, for people.

mod reference;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

pub use self::reference::{Group, Member, Operation, Part, Reference, Refusal, Success};
use super::{Frame, Visitor, page};
use crate::house::House;

#[derive(Template)]
#[template(path = "docs.html")]
struct DocsPage<'d> {
    frame: Frame,
    reference: &'d Reference,
    base_url: &'d str,
}

/// `GET /docs`
pub async fn show(State(house): State<House>, Visitor(visitor): Visitor) -> Response {
    let frame = Frame::new(&house, visitor.as_ref());
    let reference = house.description.reference();
    page(StatusCode::OK, &DocsPage { frame, reference, base_url: &house.base_url })
}
