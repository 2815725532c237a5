//! `/console/keys`: keys with crashed or quarantined actors. `…/{kind}/{key}`: one key.

use axum::extract::{Path, State};
use axum::response::Response;
use serde::Deserialize;
use wire::ops::{ActPage, KeyActor, KeyEntry, KeyFact, KeyList, KeyShown};

use super::record;
use crate::admin::console::deeds::query;
use crate::admin::console::sessions::ConsoleOperator;
use crate::admin::console::state::ConsoleState;
use crate::admin::console::view::{
    ConsoleFrame, ConsoleQuery, FilterField, PageSection, Row, SectionPage, TableCell, Trouble, question,
};

const HERE: &str = "/console/keys";

/// The query of the page.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct KeyPageQuery {
    account: String,
    request: String,
}

/// `GET /console/keys`: the keys of all nodes.
pub async fn list(
    State(state): State<ConsoleState>,
    operator: ConsoleOperator,
    ConsoleQuery(KeyPageQuery { account, request }): ConsoleQuery<KeyPageQuery>,
) -> Result<Response, Trouble> {
    let now = state.app.clock.now();
    let conditions = [("account", account.as_str()), ("request", &request), ("limit", "200")];
    let conditions: Vec<(&str, &str)> = conditions.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let KeyList { keys } = state.api.get(&operator, &format!("/keys?{}", query(&conditions))).await?;
    let row = |entry: &KeyEntry| {
        let KeyEntry { kind, key, .. } = entry;
        let parameters = [("kind", kind.as_str()), ("key", key.as_str())];
        let release = entry.quarantined_until.is_some();
        let link = if release { ("Release…", "key_release") } else { ("Quarantine…", "key_quarantine") };
        Row::new([
            TableCell::mono(key.as_str()).to(format!("{HERE}/{kind}/{key}")),
            TableCell::from(kind.as_str()),
            TableCell::from(entry.node.as_deref().or(release.then_some("all nodes"))),
            TableCell::number(u64::from(entry.crashes)),
            TableCell::moment(entry.last_crash_at.as_deref(), now),
            TableCell::moment(entry.quarantined_until.as_deref(), now),
            TableCell::from(why(entry)),
        ])
        .link(question(&operator, link.0, link.1, &parameters, HERE))
    };
    let columns = ["Key", "Kind", "Node", "Crashes", "Last crash", "Refused until", "Why"];
    let text = |name, label, value| FilterField { name, label, value, choices: Vec::new() };
    let filters = vec![text("account", "Account", account), text("request", "Request", request)];
    let rows = keys.iter().map(row).collect();
    let nothing = "No such actor of a key has crashed recently, and no such key is in quarantine.";
    let keys = PageSection::default().filters(filters).table(&columns, rows, nothing);
    let lead = "Registrations, computers and batches with actors that crashed recently, or that are refused.";
    Ok(SectionPage::new(ConsoleFrame::of(&state, &operator, HERE).await, "Keys", lead).section(keys).shown())
}

fn why(entry: &KeyEntry) -> String {
    let by = entry.quarantined_by.as_ref().map(|by| format!("{by}: "));
    let reason = entry.reason.as_ref().map(|reason| reason.as_str().to_owned());
    format!("{}{}", by.unwrap_or_default(), reason.or_else(|| entry.error.clone()).unwrap_or_default())
}

/// `GET /console/keys/{kind}/{key}`: one key with its actor, row and acts.
pub async fn show(
    State(state): State<ConsoleState>,
    operator: ConsoleOperator,
    Path((kind, key)): Path<(String, String)>,
) -> Result<Response, Trouble> {
    let now = state.app.clock.now();
    let path = format!("{HERE}/{kind}/{key}");
    let shown: KeyShown = state.api.get(&operator, &format!("/keys/{kind}/{key}")).await?;
    let parameters = [("kind", kind.as_str()), ("key", key.as_str())];
    let target = format!("{kind}:{key}");
    let mut view = SectionPage::new(ConsoleFrame::of(&state, &operator, &path).await, target.as_str(), "")
        .link(question(&operator, "Quarantine…", "key_quarantine", &parameters, &path))
        .link(question(&operator, "Release…", "key_release", &parameters, &path))
        .link(question(&operator, "Restart…", "key_restart", &parameters, &path));
    if shown.entries.is_empty() {
        view = view
            .section(PageSection::default().lead("Its actor has not crashed recently, and it is in no quarantine."));
    }
    for entry in &shown.entries {
        let section = PageSection::new(
            entry.node.as_deref().map_or_else(|| "Quarantine of an operator".to_owned(), |node| format!("On {node}")),
        )
        .fact("Crashes", TableCell::number(u64::from(entry.crashes)))
        .fact("Last crash", TableCell::moment(entry.last_crash_at.as_deref(), now))
        .fact("Error", TableCell::from(entry.error.as_deref()))
        .fact("Request", entry.request_id.as_deref().map_or_else(|| TableCell::from("–"), TableCell::mono))
        .fact("Refused until", TableCell::moment(entry.quarantined_until.as_deref(), now))
        .fact("By", TableCell::from(entry.quarantined_by.as_deref()))
        .fact("Reason", TableCell::from(entry.reason.as_ref().map(domain::act::ActReason::as_str)));
        view = view.section(section);
    }
    let fact = |fact: &KeyFact| {
        let differs = if fact.differs { TableCell::badge("differs", "is-warn") } else { TableCell::default() };
        Row::new([
            TableCell::from(fact.name.as_str()),
            TableCell::from(fact.actor.as_deref()),
            TableCell::from(fact.row.as_deref()),
            differs,
        ])
    };
    let lead = match &shown.actor {
        None => "No actor of this key runs on this server.".to_owned(),
        Some(KeyActor { node, queued, unmoved_ms, busy }) => {
            let state = if *busy { "busy, so its state cannot be read" } else { "idle" };
            format!("Its actor on {node} is {state}; {queued} messages, the last one {unmoved_ms} ms ago.")
        }
    };
    let rows = shown.facts.iter().map(fact).collect();
    let facts = PageSection::new("State").lead(lead).table(
        &["Value", "Actor", "Row", "Difference"],
        rows,
        "There is no row with this id.",
    );
    view = view.section(facts);
    let acts: ActPage =
        state.api.get(&operator, &format!("/acts?{}", query(&[("target", &target), ("limit", "20")]))).await?;
    let rows = acts.acts.iter().map(|act| record::row(act, now)).collect();
    let acts = PageSection::new("Acts").table(&record::COLUMNS, rows, "No operator has changed it.");
    Ok(view.section(acts).shown())
}
