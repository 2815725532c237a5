//! `attache account`: shows the summary of the person's account.

use domain::Timestamp;
use domain::foreign::visible;
use wire::account::{AccountSummary, Agents};

use crate::connection::Remote;
use crate::failure::{Done, Failure};
use crate::terminal::{STRONG, WARNING};
use crate::usage::dollars;
use crate::{moment, output, terminal};

/// Requests and prints the account summary.
pub async fn account(remote: &Remote) -> Done {
    let mut connection = remote.open()?;
    let whom = connection.account_reader()?;
    let summary = connection.send_as(whom, async |client| client.account_summary().await).await?;
    let value = serde_json::to_value(&summary).map_err(Failure::caused)?;
    let now = connection.clock().now();
    output::show(connection.json, &value, || shown(&summary, now));
    Ok(())
}

fn shown(summary: &AccountSummary, now: Timestamp) -> String {
    let sections = &summary.sections;
    let mut lines = Vec::new();
    if let Some(account) = &sections.account {
        let owner = match (&account.name, &account.email) {
            (Some(name), Some(email)) => format!("{name} <{email}>"),
            (Some(one), None) | (None, Some(one)) => one.clone(),
            (None, None) => "none".to_owned(),
        };
        lines.push(format!("account    {}", terminal::styled(STRONG, &account.id)));
        lines.push(format!("owner      {}", visible(&owner)));
    }
    if let Some(usage) = &sections.plan_and_usage {
        let (memory, retrospective) = (usage.memory.percent_left, usage.retrospective.percent_left);
        lines.push(format!(
            "plan       {}: memory {memory} %, retrospectives {retrospective} % left; balance {}",
            usage.plan.as_str(),
            dollars(usage.balance_cents)
        ));
    }
    if let Some(computers) = &sections.computers {
        lines.push(format!("computers  {}", computers.computers.len()));
        lines.extend(computers.computers.iter().map(|computer| {
            let id = moment::short(&computer.machine_uuid.to_string());
            format!("  {id}{}  last seen {}", label(computer.label.as_deref()), moment::ago(computer.last_seen_at, now))
        }));
    }
    if let Some(agents) = &sections.agents {
        lines.extend(agent_lines(agents, now));
    }
    let missing = summary
        .errors
        .iter()
        .map(|(section, why)| terminal::styled(WARNING, format!("{section} is not available at the moment: {why}")));
    lines.extend(missing);
    lines.join("\n")
}

/// The person's name for a computer or an agent, appended to its id.
fn label(label: Option<&str>) -> String {
    label.map(|label| format!("  {}", terminal::styled(STRONG, visible(label)))).unwrap_or_default()
}

fn agent_lines(Agents { agents }: &Agents, now: Timestamp) -> Vec<String> {
    let living: Vec<_> = agents.iter().filter(|agent| agent.revoked_at.is_none()).collect();
    let revoked = match agents.len() - living.len() {
        0 => String::new(),
        revoked => format!(" and {revoked} revoked"),
    };
    let mut lines = vec![format!("agents     {}{revoked}", living.len())];
    lines.extend(living.iter().map(|agent| {
        let id = moment::short(&agent.id.to_string());
        format!(
            "  {id}{}  {}, {}",
            label(agent.label.as_deref()),
            agent.kind.as_str(),
            moment::ago(agent.created_at, now)
        )
    }));
    lines
}
