//! `/console/nodes/{node}`: the actors of a server. `…/{actor}`: one actor.

use axum::extract::{Path, State};
use axum::response::Response;
use supervision::root::Node;
use wire::ops::{NodeTree, SettingEntry, SettingList};

use super::settings::row;
use crate::admin::console::deeds::query;
use crate::admin::console::sessions::ConsoleOperator;
use crate::admin::console::state::ConsoleState;
use crate::admin::console::view::{ConsoleFrame, PageSection, Row, SectionPage, TableCell, Trouble, question};
use crate::admin::words::{budget_words, micros, pace_words, purpose, status_words, trouble};

const HERE: &str = "/console/nodes";

/// `GET /console/nodes/{node}`: the actors of a server.
pub async fn list(
    State(state): State<ConsoleState>,
    operator: ConsoleOperator,
    Path(node): Path<String>,
) -> Result<Response, Trouble> {
    let NodeTree { id, node: name, age_ms, tree, .. } =
        state.api.get(&operator, &format!("/nodes/{node}/tree")).await?;
    let path = format!("{HERE}/{id}");
    let tree: Option<Node> = serde_json::from_value(tree).ok();
    let actor = |child: &Node| {
        let (status, class) = status_words(child);
        Row::new([
            TableCell::mono(child.name.as_str()).to(format!("{path}/{}", child.name)),
            TableCell::badge(status, class),
            TableCell::number(child.live),
            TableCell::number(child.queued),
            TableCell::from(pace_words(child).unwrap_or_else(|| "–".to_owned())),
            TableCell::number(child.restarts),
            TableCell::number(child.quarantined),
            TableCell::from(trouble(child).unwrap_or_default()),
        ])
    };
    let columns = ["Actor", "State", "Live", "Waiting", "Pace", "Restarts", "Quarantined", "Trouble"];
    let rows = tree.iter().flat_map(|tree| &tree.children).map(actor).collect();
    let actors = PageSection::new("Actors").table(&columns, rows, "Its supervisor did not answer.");
    let parameters = [("node", node.as_str())];
    let lead = format!("The actors of this server, {}.", age_words(age_ms));
    let view = SectionPage::new(ConsoleFrame::of(&state, &operator, &path).await, name, lead)
        .link(question(&operator, "Drain…", "node_drain", &parameters, &path))
        .link(question(&operator, "Reload…", "config_reload", &parameters, &path));
    Ok(view.section(actors).shown())
}

/// `GET /console/nodes/{node}/{actor}`: one actor with its failures and settings.
pub async fn show(
    State(state): State<ConsoleState>,
    operator: ConsoleOperator,
    Path((node, name)): Path<(String, String)>,
) -> Result<Response, Trouble> {
    let route = format!("/nodes/{node}/tree/{name}");
    let NodeTree { id, node: host, age_ms, tree, .. } = state.api.get(&operator, &route).await?;
    let unreadable = || Trouble::not_found("The actor cannot be shown: the server has another version.");
    let child: Node = serde_json::from_value(tree).map_err(|_| unreadable())?;
    let path = format!("{HERE}/{id}/{name}");
    let (status, class) = status_words(&child);
    let mut now = PageSection::new("Now")
        .fact("State", TableCell::badge(status, class))
        .fact("Server", TableCell::from(host.as_str()).to(format!("{HERE}/{id}")))
        .fact("Live", TableCell::number(child.live))
        .fact("Waiting messages", TableCell::number(child.queued));
    if let Some(unmoved) = child.unmoved_ms {
        now = now.fact("Since the last finished message", micros(unmoved.saturating_mul(1_000)));
    }
    if let Some(oldest) = child.oldest_ms {
        now = now.fact("Age of the oldest message", micros(oldest.saturating_mul(1_000)));
    }
    if let Some(times) = child.times {
        now = now
            .fact("Messages a minute", TableCell::number(times.handled_per_minute))
            .fact("Wait", format!("{} median, {} of 99 %", micros(times.wait_p50_us), micros(times.wait_p99_us)))
            .fact(
                "Handling",
                format!("{} median, {} of 99 %", micros(times.handler_p50_us), micros(times.handler_p99_us)),
            )
            .fact("Deepest queue of ten minutes", TableCell::number(times.deepest_queue));
    }
    if let Some(pass) = child.pass {
        let next =
            if pass.next_in_ms == 0 { "runs".to_owned() } else { format!("in {}", micros(pass.next_in_ms * 1_000)) };
        now = now.fact(
            "Last pass",
            format!("{} long, {} ago", micros(pass.took_ms * 1_000), micros(pass.ended_ms_ago * 1_000)),
        );
        now = now.fact("Next pass", next);
    }
    if let Some(failing) = &child.failing {
        now = now.fact("Passes fail", format!("since {} s: {}", failing.since_seconds_ago, failing.error));
    }
    now = now.fact("Restarts since the start", TableCell::number(child.restarts));
    if let Some(budget) = child.budget {
        let words = budget_words(budget).unwrap_or_else(|| format!("{} restarts left", budget.restarts_left));
        now = now.fact("Restart budget", words);
    }
    let failure = |failure: &supervision::root::ChildFailure| {
        let request = failure.request.as_deref().map_or_else(TableCell::default, TableCell::from);
        Row::new([TableCell::from(format!("{} s ago", failure.seconds_ago)), failure.error.as_str().into(), request])
    };
    let failures = child.failures.iter().map(failure).collect();
    let failures = PageSection::new("Failures").table(
        &["When", "Error", "Request"],
        failures,
        "It has not failed since the start.",
    );
    let parameters = [("node", node.as_str()), ("actor", name.as_str())];
    let mut view = SectionPage::new(
        ConsoleFrame::of(&state, &operator, &path).await,
        name.as_str(),
        format!("{} As {}.", purpose(&child.kind), age_words(age_ms)),
    )
    .link(question(&operator, "Restart…", "actor_restart", &parameters, &path))
    .link(question(&operator, "Kill…", "actor_kill", &parameters, &path))
    .section(now)
    .section(failures);
    if !child.busiest.is_empty() {
        let busy = |key: &supervision::root::BusyKey| {
            Row::new([
                TableCell::mono(key.key.as_str()).to(format!("/console/keys/{}/{}", child.kind, key.key)),
                TableCell::number(u64::from(key.queued)),
                TableCell::from(micros(key.unmoved_ms.saturating_mul(1_000))),
            ])
        };
        let rows = child.busiest.iter().map(busy).collect();
        view = view.section(PageSection::new("Busiest keys").table(
            &["Key", "Waiting", "Since the last finished message"],
            rows,
            "",
        ));
    }
    let settings = settings_of(&state, &operator, &child.kind).await;
    let rows = settings.iter().map(|entry| row(entry, &operator, &path)).collect();
    let tuning = PageSection::new("Settings of its kind").table(
        &super::settings::COLUMNS,
        rows,
        "It has the settings of [actors] only.",
    );
    Ok(view.section(tuning).shown())
}

/// The settings of one kind of actor, or of all kinds.
async fn settings_of(state: &ConsoleState, operator: &ConsoleOperator, kind: &str) -> Vec<SettingEntry> {
    let mut settings = Vec::new();
    for path in [format!("actors.{kind}"), "actors".to_owned()] {
        let route = format!("/config?{}", query(&[("path", &path)]));
        if let Ok(SettingList { settings: some }) = state.api.get(operator, &route).await {
            let of_all = |entry: &SettingEntry| {
                let rest = entry.path.strip_prefix("actors.").unwrap_or_default();
                path != "actors" || !rest.contains('.') || rest.starts_with("restart.")
            };
            settings.extend(some.into_iter().filter(of_all));
        }
    }
    settings
}

fn age_words(age_ms: u64) -> String {
    if age_ms == 0 { "it is now".to_owned() } else { format!("it was {} s ago", age_ms.div_ceil(1_000)) }
}
