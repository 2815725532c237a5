//! The overview: usage, computers, agents.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use domain::Timestamp;
use domain::claim::{Registration, RegistrationType};
use domain::ids::UserAccountId;
use store::machine::Computer;

use super::{AGENTS_MAX, COMPUTERS_MAX, Owner};
use crate::app::App;
use crate::usage::{UsageOwner, usage_bar};
use crate::web::{Moment, PageError, PageLayout, PageResult, page};
use wire::usage::Measure;

#[derive(Template)]
#[template(path = "account/home.html")]
struct HomePage {
    frame: PageLayout,
    tab: &'static str,
    base_url: String,
    computers: Vec<ComputerRow>,
    agents: Vec<AgentRow>,
    /// Not, when it cannot be counted right now: the rest of the page is worth showing all the same.
    usage: Option<Usage>,
}

struct Usage {
    plan: &'static str,
    balance: String,
    /// Not, when nobody sells anything here.
    top_up_url: Option<String>,
    meters: [Meter; 2],
}

struct Meter {
    name: &'static str,
    percent_left: String,
    reset: Moment,
}

struct ComputerRow {
    uuid: String,
    name: Option<String>,
    attached: Option<Moment>,
    last_seen: Moment,
}

struct AgentRow {
    id: String,
    kind: &'static str,
    claimed: Option<Moment>,
    last_token: Option<Moment>,
    address: Option<String>,
    revoked: Option<Moment>,
}

/// `GET /account`
pub async fn show(State(app): State<App>, owner: Owner) -> PageResult {
    let now = app.clock.now();
    let page_error = PageError::store(&app);
    let (computers, agents, usage) = tokio::join!(
        app.store.computers_of_account(&owner.account, COMPUTERS_MAX),
        app.store.agents_of_account(&owner.account, AGENTS_MAX),
        usage(&app, &owner.account, now),
    );
    let computer = |computer: Computer| ComputerRow {
        uuid: computer.machine_uuid.to_string(),
        name: computer.name,
        attached: computer.attached_at.map(|at| Moment::new(at, now)),
        last_seen: Moment::new(computer.last_seen_at, now),
    };
    let agent = |agent: Registration| AgentRow {
        id: agent.id.to_string(),
        kind: match agent.registration_type {
            RegistrationType::Anonymous => "registered anonymously",
            RegistrationType::ServiceAuth => "registered for you",
        },
        claimed: agent.claim.map(|claim| Moment::new(claim.at, now)),
        last_token: agent.last_token_at.map(|at| Moment::new(at, now)),
        address: agent.ip_address,
        revoked: agent.revoked_at.map(|at| Moment::new(at, now)),
    };
    Ok(page(
        StatusCode::OK,
        &HomePage {
            frame: PageLayout::new(&app, Some(&owner.visitor)),
            tab: "home",
            base_url: app.base_url.clone(),
            computers: computers.map_err(&page_error)?.into_iter().map(computer).collect(),
            agents: agents.map_err(&page_error)?.into_iter().map(agent).collect(),
            usage,
        },
    ))
}

async fn usage(app: &App, account: &UserAccountId, now: Timestamp) -> Option<Usage> {
    let owner = UsageOwner::Account(account.clone());
    let bar = tokio::time::timeout(app.settings.account.section_deadline, usage_bar(app, &owner)).await;
    let bar = bar.ok()?.ok()??;
    let meter = |name, measure: Measure| Meter {
        name,
        percent_left: measure.percent_left.to_string(),
        reset: Moment::new(measure.reset_at, now),
    };
    let (dollars, cents) = (bar.balance_cents / 100, (bar.balance_cents % 100).abs());
    let sign = if bar.balance_cents < 0 { "-" } else { "" };
    Some(Usage {
        plan: bar.plan.as_str(),
        balance: format!("{sign}${}.{cents:02}", dollars.abs()),
        top_up_url: app.settings.account.top_up_url.clone(),
        meters: [meter("Memory events", bar.memory), meter("Retrospectives", bar.retrospective)],
    })
}
