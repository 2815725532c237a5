//! `/console/sessions`: signed-in browsers of people.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use wire::ops::{ObjectPage, PersonSessionEntry};

use crate::admin::console::deeds::query;
use crate::admin::console::sessions::ConsoleOperator;
use crate::admin::console::state::ConsoleState;
use crate::admin::console::view::{
    ConsoleFrame, ConsoleQuery, FilterField, PageSection, Row, SectionPage, TableCell, Trouble, question,
};

const HERE: &str = "/console/sessions";

/// The query of the page.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SessionPageQuery {
    account: String,
    person: String,
    after: String,
}

/// `GET /console/sessions`: valid sessions, oldest first.
pub async fn list(
    State(state): State<ConsoleState>,
    operator: ConsoleOperator,
    ConsoleQuery(SessionPageQuery { account, person, after }): ConsoleQuery<SessionPageQuery>,
) -> Result<Response, Trouble> {
    let now = state.app.clock.now();
    let filter = [("account", account.as_str()), ("person", person.as_str())];
    let with = |after: &str| {
        let all = [filter[0], filter[1], ("after", after)];
        query(&all.into_iter().filter(|(_, value)| !value.is_empty()).collect::<Vec<_>>())
    };
    let route = format!("/sessions?{}", with(&after));
    let ObjectPage { entries, next } = state.api.get::<ObjectPage<PersonSessionEntry>>(&operator, &route).await?;
    let here = format!("{HERE}?{}", with(""));
    let row = |session: &PersonSessionEntry| {
        let (id, person) = (session.id.to_string(), session.person_id.to_string());
        Row::new([
            TableCell::mono(id.as_str()),
            TableCell::mono(person.as_str()).to(format!("{HERE}?{}", query(&[("person", &person)]))),
            TableCell::mono(session.user_account_id.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string)),
            TableCell::from(session.kind.as_str()),
            TableCell::moment(Some(&session.created_at), now),
            TableCell::moment(Some(&session.last_used_at), now),
            TableCell::moment(Some(&session.expires_at), now),
        ])
        .link(question(&operator, "End…", "session_end", &[("id", &id)], &here))
    };
    let columns = ["Session", "Person", "Account", "Sign-in", "Since", "Last use", "Expires"];
    let field = |(name, value): (&'static str, &str), label| FilterField {
        name,
        label,
        value: value.to_owned(),
        choices: Vec::new(),
    };
    let section = PageSection::default()
        .filters(vec![field(filter[0], "Account"), field(filter[1], "Person")])
        .table(&columns, entries.iter().map(row).collect(), "No session is valid.")
        .next(next.map(|next| format!("{HERE}?{}", with(&next.to_string()))));
    let lead = "Signed-in browsers of people, oldest first. A use is written once an hour.";
    Ok(SectionPage::new(ConsoleFrame::of(&state, &operator, HERE).await, "Sessions", lead).section(section).shown())
}
