//! `attache costs`: tokens and costs of models, by model, agent, project or day.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use domain::foreign::visible;
use domain::prices::MicroDollars;
use wire::costs::{CostRow, Costs};

use super::connection::{CredentialArgs, Remote};
use super::failure::{Done, Failure};
use super::output;

/// Options of `attache costs`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Number of days up to today (UTC), 1 to 400
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=400))]
    days: u16,
    /// Add the rows up by this
    #[arg(long, value_enum, default_value_t = Grouping::Model)]
    by: Grouping,
    /// Print every row as CSV: day, agent, project, model, answers, tokens, costs in US dollars
    #[arg(long, conflicts_with = "by")]
    csv: bool,
    #[command(flatten)]
    whom: CredentialArgs,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Grouping {
    Model,
    Agent,
    Project,
    Day,
}

/// Requests and prints tokens and costs.
pub async fn costs(arguments: Arguments) -> Done {
    let mut connection = arguments.remote.open()?;
    let costs = connection.send_as(arguments.whom, async |client| client.costs(arguments.days).await).await?;
    if arguments.csv && !connection.json {
        output::print(csv(&costs).trim_end());
        return Ok(());
    }
    let value = serde_json::to_value(&costs).map_err(Failure::caused)?;
    output::show(connection.json, &value, || shown(&costs, arguments.by));
    Ok(())
}

/// The sums of one group.
#[derive(Default)]
struct Sum {
    calls: i64,
    input_tokens: i64,
    output_tokens: i64,
    cost: MicroDollars,
    has_price: bool,
}

fn shown(costs: &Costs, by: Grouping) -> String {
    if costs.rows.is_empty() {
        return format!("no answers of models from {} to {}", costs.first_day, costs.last_day);
    }
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    for row in &costs.rows {
        let sum = sums.entry(key(row, by)).or_default();
        sum.calls += row.calls;
        sum.input_tokens += row.input_tokens;
        sum.output_tokens += row.output_tokens;
        sum.has_price |= row.cost_microdollars.is_some();
        sum.cost += MicroDollars(row.cost_microdollars.unwrap_or_default());
    }
    let mut sums: Vec<(&str, Sum)> = sums.into_iter().collect();
    if by != Grouping::Day {
        sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.cost));
    }
    let row = |(name, sum): (&str, Sum)| {
        let cost = if sum.has_price { sum.cost.to_string() } else { "no price".to_owned() };
        let numbers = [sum.calls, sum.input_tokens, sum.output_tokens].map(|number| number.to_string());
        [visible(name)].into_iter().chain(numbers).chain([cost]).collect()
    };
    let name = match by {
        Grouping::Model => "model",
        Grouping::Agent => "agent",
        Grouping::Project => "project",
        Grouping::Day => "day",
    };
    let table = output::table(&[name, "answers", "read", "written", "costs"], sums.into_iter().map(row));
    let total = MicroDollars(costs.total_microdollars);
    let mut text = format!(
        "{table}\n\n{total} from {} to {}, list prices of {}",
        costs.first_day, costs.last_day, costs.prices_as_of
    );
    if !costs.unpriced_models.is_empty() {
        let names: Vec<String> =
            costs.unpriced_models.iter().map(|name| visible(name.as_deref().unwrap_or("not named"))).collect();
        text = format!("{text}\nwithout a price, not included: {}", names.join(", "));
    }
    text
}

fn key(row: &CostRow, by: Grouping) -> &str {
    match by {
        Grouping::Model => row.model.as_deref().unwrap_or("not named"),
        Grouping::Agent => &row.agent_id,
        Grouping::Project => row.project_id.as_deref().unwrap_or("no project"),
        Grouping::Day => &row.day,
    }
}

fn csv(costs: &Costs) -> String {
    let mut lines = "day,agent,project,model,answers,input_tokens,output_tokens,cost_usd\r\n".to_owned();
    for row in &costs.rows {
        let cost = row.cost_microdollars.map(|micro| format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000));
        let texts = [
            &row.day,
            &row.agent_id,
            row.project_id.as_ref().unwrap_or(&String::new()),
            row.model.as_ref().unwrap_or(&String::new()),
        ]
        .map(|text| domain::foreign::csv_cell(text));
        let numbers = [row.calls, row.input_tokens, row.output_tokens].map(|number| number.to_string());
        let cells: Vec<String> = texts.into_iter().chain(numbers).chain([cost.unwrap_or_default()]).collect();
        lines.push_str(&cells.join(","));
        lines.push_str("\r\n");
    }
    lines
}
