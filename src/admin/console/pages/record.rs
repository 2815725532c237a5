//! `/console/acts`: the record of operators' acts.

use axum::extract::{Path, State};
use axum::response::Response;
use domain::Timestamp;
use domain::act::ActKind;
use proofs::proof::{AuditProof, Verified, verify};
use serde::Deserialize;
use serde_json::{Value, json};
use wire::ops::{ActEntry, ActPage, ActShown};

use crate::admin::console::deeds::query;
use crate::admin::console::sessions::ConsoleOperator;
use crate::admin::console::state::ConsoleState;
use crate::admin::console::view::{
    ConsoleFrame, ConsoleQuery, FilterField, PageSection, Row, SectionPage, TableCell, Trouble,
};

const HERE: &str = "/console/acts";

/// Columns of [`row`].
pub const COLUMNS: [&str; 6] = ["Act", "When", "By", "On", "Outcome", "Reason"];

/// The query of the page.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ActQuery {
    act: String,
    target: String,
    by: String,
    before: String,
}

/// `GET /console/acts`: acts, newest first.
pub async fn list(
    State(state): State<ConsoleState>,
    operator: ConsoleOperator,
    ConsoleQuery(ActQuery { act, target, by, before }): ConsoleQuery<ActQuery>,
) -> Result<Response, Trouble> {
    let now = state.app.clock.now();
    let conditions = [("act", act.as_str()), ("target", &target), ("by", &by)];
    let conditions: Vec<(&str, &str)> = conditions.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let page = |before: &str| {
        let before = Some(("before", before)).filter(|(_, id)| !id.is_empty());
        query(&conditions.iter().copied().chain(before).collect::<Vec<_>>())
    };
    let ActPage { acts, next } = state.api.get(&operator, &format!("/acts?{}", page(&before))).await?;
    let text = |name, label, value: &str| FilterField { name, label, value: value.to_owned(), choices: Vec::new() };
    let kinds = ActKind::ALL.iter().map(|kind| kind.as_str().to_owned()).collect();
    let filters = vec![
        FilterField { name: "act", label: "Act", value: act.clone(), choices: kinds },
        text("target", "On", &target),
        text("by", "By", &by),
    ];
    let section = PageSection::default()
        .filters(filters)
        .table(&COLUMNS, acts.iter().map(|act| row(act, now)).collect(), "No act matches.")
        .next(next.map(|next| format!("{HERE}?{}", page(&next.to_string()))));
    let lead = "What operators did, newest first. Each act is an event in the signed log; `attache admin act verify` checks all.";
    Ok(SectionPage::new(ConsoleFrame::of(&state, &operator, HERE).await, "Acts", lead).section(section).shown())
}

/// The row of an act.
pub fn row(act: &ActEntry, now: Timestamp) -> Row {
    let outcome = json!(act.outcome);
    Row::new([
        TableCell::from(act.act.as_str()).to(format!("{HERE}/{}", act.id)),
        TableCell::moment(Some(&act.done_at), now),
        TableCell::from(act.by.as_str()),
        act.target.as_deref().map_or_else(|| TableCell::from("–"), TableCell::mono),
        TableCell::from(outcome.as_str()),
        TableCell::from(act.reason.as_ref().map(domain::act::ActReason::as_str)),
    ])
}

/// `GET /console/acts/{id}`: one act with its event.
pub async fn show(
    State(state): State<ConsoleState>,
    operator: ConsoleOperator,
    Path(id): Path<String>,
) -> Result<Response, Trouble> {
    let now = state.app.clock.now();
    let ActShown { act, event, proof } = state.api.get(&operator, &format!("/acts/{id}")).await?;
    let outcome = json!(act.outcome);
    let facts = PageSection::default()
        .fact("When", TableCell::moment(Some(&act.done_at), now))
        .fact("By", TableCell::from(act.by.as_str()))
        .fact("Server", TableCell::from(act.node.as_str()))
        .fact("On", act.target.as_deref().map_or_else(|| TableCell::from("–"), TableCell::mono))
        .fact("Outcome", TableCell::from(outcome.as_str()))
        .fact("Reason", TableCell::from(act.reason.as_ref().map(domain::act::ActReason::as_str)))
        .fact(
            "Before",
            act.before.as_ref().map_or_else(|| TableCell::from("–"), |before| TableCell::mono(before.to_string())),
        )
        .fact(
            "After",
            act.after.as_ref().map_or_else(|| TableCell::from("–"), |after| TableCell::mono(after.to_string())),
        )
        .fact("Ends", TableCell::moment(act.until.as_deref(), now))
        .fact("In the log since", TableCell::moment(act.sent_at.as_deref(), now));
    let facts = facts.fact("Proof", proven(proof.as_ref()));
    let sealed = PageSection::new("Event").lead("As the log has it.").text(format!("{event:#}"));
    let frame = ConsoleFrame::of(&state, &operator, HERE).await;
    let mut view = SectionPage::new(frame, act.act.as_str(), format!("Act {}", act.id)).section(facts).section(sealed);
    if let Some(proof) = proof {
        let lead = "Saved as a file, `attache verify` checks it on another computer, with the key that you trust.";
        view = view.section(PageSection::new("Proof").lead(lead).text(format!("{proof:#}")));
    }
    Ok(view.shown())
}

/// The result of the proof's check against the key that it names.
fn proven(proof: Option<&Value>) -> TableCell {
    let Some(proof) = proof else { return TableCell::from("no signed tree has it yet") };
    let proof: Result<AuditProof, _> = serde_json::from_value(proof.clone());
    let verified = proof.ok().and_then(|proof| Some((proof.vkey.parse().ok()?, proof)));
    match verified.map(|(key, proof)| verify(&proof, &key)) {
        Some(Ok(Verified { leaf_index, checkpoint, .. })) => {
            TableCell::from(format!("holds: event {leaf_index} of a signed tree of {}", checkpoint.size))
        }
        Some(Err(fault)) => TableCell::badge(format!("does not hold: {fault}"), "is-bad"),
        None => TableCell::badge("cannot be read", "is-bad"),
    }
}
