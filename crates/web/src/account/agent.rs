//! The page of one agent: its name, state and way to end it.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use domain::agent_right::AgentRight;
use domain::claim::{Registration, RegistrationType};
use domain::ids::RegistrationId;
use domain::label::Label;

use super::AccountOwner;
use super::computer::{LABEL_FAULT, LabelForm};
use super::undo::gone;
use crate::{Moment, PageError, PageForm, PageLayout, PageResult, Site, page};
use api::named::Named;
use app::services::labels::Labels;

#[derive(Template)]
#[template(path = "account/agent.html")]
struct AgentPage {
    frame: PageLayout,
    tab: &'static str,
    id: String,
    name: String,
    label: String,
    kind: &'static str,
    registered: Moment,
    claimed: Option<Moment>,
    last_token: Option<Moment>,
    revoked: Option<Moment>,
    address: Option<String>,
    /// Rights of an agent that does not have all.
    rights: Vec<&'static str>,
    /// Agents that it confirmed for the account.
    agents: u64,
    /// Computers that it attached to the account.
    computers: u64,
    fault: Option<&'static str>,
}

/// `GET /account/agents/{id}`
pub async fn show(State(site): State<Site>, owner: AccountOwner, Named(id): Named) -> PageResult {
    draw(&site, &owner, &id, StatusCode::OK, None).await
}

/// `POST /account/agents/{id}`: the account's name for the agent.
pub async fn rename(
    State(site): State<Site>,
    State(labels): State<Labels>,
    owner: AccountOwner,
    Named(id): Named,
    PageForm(form): PageForm<LabelForm>,
) -> PageResult {
    let agent: RegistrationId = id.parse().map_err(|_| gone(&site, &owner.visitor))?;
    let Ok(label) = Label::or_none(&form.label) else {
        return draw(&site, &owner, &id, StatusCode::BAD_REQUEST, Some((form.label, LABEL_FAULT))).await;
    };
    let is_removed = label.is_none();
    let named = labels.name_agent(agent, owner.account.clone(), label).await.map_err(PageError::of(&site))?;
    if !named {
        return Err(gone(&site, &owner.visitor));
    }
    let said = if is_removed { "The name is removed." } else { "The name is saved." };
    Ok(site.to(&format!("/account/agents/{agent}"), said))
}

async fn draw(
    site: &Site,
    owner: &AccountOwner,
    id: &str,
    status: StatusCode,
    fault: Option<(String, &'static str)>,
) -> PageResult {
    let now = site.ports.clock.now();
    let id: RegistrationId = id.parse().map_err(|_| gone(site, &owner.visitor))?;
    let page_error = PageError::of(site);
    let agent = site.agents.of_account(id, &owner.account).await.map_err(&page_error)?;
    let agent = agent.ok_or_else(|| gone(site, &owner.visitor))?;
    let confirmed = site.agents.confirmed_by(id).await.map_err(&page_error)?;
    let own = agent.label.as_ref().map(Label::as_str).unwrap_or_default().to_owned();
    let (label, fault) = fault.map_or((own, None), |(typed, fault)| (typed, Some(fault)));
    Ok(page(
        status,
        &AgentPage {
            frame: PageLayout::new(site, Some(&owner.visitor)),
            tab: "home",
            name: agent_name(&agent),
            label,
            kind: agent_kind(&agent),
            registered: Moment::new(agent.created_at, now),
            claimed: agent.claim.as_ref().map(|claim| Moment::new(claim.at, now)),
            last_token: agent.last_token_at.map(|at| Moment::new(at, now)),
            revoked: agent.revoked_at.map(|at| Moment::new(at, now)),
            rights: agent
                .claim
                .and_then(|claim| claim.rights)
                .map_or_else(Vec::new, |rights| rights.iter().map(AgentRight::words).collect()),
            address: agent.ip_address,
            agents: confirmed.agents,
            computers: confirmed.computers,
            id: id.to_string(),
            fault,
        },
    ))
}

/// The account's name for an agent, else the end of its id.
pub(in crate::account) fn agent_name(agent: &Registration) -> String {
    agent.label.as_ref().map_or_else(
        || {
            let id = agent.id.to_string();
            format!("Agent …{}", &id[id.len() - 8..])
        },
        |label| label.as_str().to_owned(),
    )
}

/// How an agent registered.
pub(super) fn agent_kind(agent: &Registration) -> &'static str {
    match agent.registration_type {
        RegistrationType::Anonymous => "registered anonymously",
        RegistrationType::ServiceAuth => "registered for you",
    }
}
