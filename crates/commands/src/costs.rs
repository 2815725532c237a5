//! `attache costs`: tokens and costs of models, by model, agent, project or day.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use domain::foreign::visible;
use domain::prices::{CostKey, CostSum, MicroDollars, costs_csv};
use wire::costs::{CostRow, Costs};

use crate::connection::{CredentialArgs, Remote};
use crate::failure::{Done, Failure};
use crate::output;

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
        output::print(costs_csv(costs.rows.iter().map(csv_row)).trim_end());
        return Ok(());
    }
    let value = serde_json::to_value(&costs).map_err(Failure::caused)?;
    output::show(connection.json, &value, || shown(&costs, arguments.by));
    Ok(())
}

fn shown(costs: &Costs, by: Grouping) -> String {
    if costs.rows.is_empty() {
        return format!("no answers of models from {} to {}", costs.first_day, costs.last_day);
    }
    let mut sums: BTreeMap<&str, CostSum> = BTreeMap::new();
    for row in &costs.rows {
        *sums.entry(key(row, by)).or_default() += sum(row);
    }
    let mut sums: Vec<(&str, CostSum)> = sums.into_iter().collect();
    if by != Grouping::Day {
        sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.cost.unwrap_or_default()));
    }
    let row = |(name, sum): (&str, CostSum)| {
        let cost = sum.cost.map_or_else(|| "no price".to_owned(), |cost| cost.to_string());
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

fn sum(row: &CostRow) -> CostSum {
    let &CostRow { calls, input_tokens, output_tokens, cost_microdollars, .. } = row;
    CostSum { calls, input_tokens, output_tokens, cost: cost_microdollars.map(MicroDollars) }
}

fn csv_row(row: &CostRow) -> (CostKey<'_>, CostSum) {
    let [project, model] = [&row.project_id, &row.model].map(|text| text.as_deref().unwrap_or_default().into());
    ([(&row.day).into(), (&row.agent_id).into(), project, model], sum(row))
}
