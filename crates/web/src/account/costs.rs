//! Tokens and costs of models in the last 30 days, by model, agent, project and day, and as a CSV file.

use std::collections::BTreeMap;

use app::services::activity::browse::Activity;
use app::services::agent_sessions::costs::{ModelCostRow, ModelCosts, ModelDay};
use app::services::agent_sessions::{AgentSessionError, AgentSessions};
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;
use domain::prices::{CostKey, CostSum, costs_csv};
use domain::usage::Day;

use super::AccountOwner;
use super::sessions::words::amount;
use super::sessions::{external, model_words, project_words, unavailable};
use crate::{PageError, PageLayout, PageResult, Site, page};

/// Days of the page and of the file.
const DAYS: u16 = 30;
/// Lines of each table of the page; the file has all rows.
const LINES_MAX: usize = 50;

#[derive(Template)]
#[template(path = "account/costs.html")]
struct CostsPage {
    frame: PageLayout,
    tab: &'static str,
    total: String,
    first: String,
    last: String,
    as_of: String,
    is_cut: bool,
    unpriced: Vec<String>,
    tables: Vec<CostTable>,
}

struct CostTable {
    id: &'static str,
    title: &'static str,
    lines: Vec<CostLine>,
    left_out: usize,
}

struct CostLine {
    name: String,
    calls: String,
    input: String,
    output: String,
    cost: String,
}

/// `GET /account/costs`
pub async fn show(
    State(site): State<Site>,
    State(activity): State<Activity>,
    State(sessions): State<AgentSessions>,
    owner: AccountOwner,
) -> PageResult {
    let costs = read(&site, &activity, &sessions, &owner).await?;
    let table =
        |id, title, is_by_cost, name: fn(&ModelCostRow) -> String| table(id, title, is_by_cost, &costs.rows, name);
    Ok(page(
        StatusCode::OK,
        &CostsPage {
            frame: PageLayout::new(&site, Some(&owner.visitor)),
            tab: "sessions",
            total: costs.total.to_string(),
            first: words(costs.first),
            last: words(costs.last),
            as_of: costs.prices_as_of.clone(),
            is_cut: costs.is_cut,
            unpriced: costs.unpriced.iter().map(|name| model_words(name)).collect(),
            tables: vec![
                table("models", "By model", true, |row| model_words(&row.used.used.model)),
                table("agents", "By agent", true, |row| row.used.agent.clone()),
                table("projects", "By project", true, |row| match row.used.project.as_str() {
                    "" => "No project".to_owned(),
                    project => project_words(project),
                }),
                table("days", "By day", false, |row| row.used.day.to_string()),
            ],
        },
    ))
}

/// `GET /account/costs/export`: every row as CSV.
pub async fn export(
    State(site): State<Site>,
    State(activity): State<Activity>,
    State(sessions): State<AgentSessions>,
    owner: AccountOwner,
) -> PageResult {
    let costs = read(&site, &activity, &sessions, &owner).await?;
    let file = costs_csv(costs.rows.iter().map(csv_row));
    let headers = [
        (CONTENT_TYPE, "text/csv; charset=utf-8"),
        (CONTENT_DISPOSITION, "attachment; filename=\"attache-costs.csv\""),
        (CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, file).into_response())
}

fn csv_row(row: &ModelCostRow) -> (CostKey<'_>, CostSum) {
    let ModelDay { day, agent, project, used } = &row.used;
    ([day.to_string().into(), agent.into(), project.into(), (&used.model).into()], row.sum())
}

async fn read(
    site: &Site,
    activity: &Activity,
    sessions: &AgentSessions,
    owner: &AccountOwner,
) -> Result<ModelCosts, PageError> {
    let scope = activity.scope(&owner.account).await.map_err(PageError::of(site))?;
    let today = Day::of(site.ports.clock.now());
    sessions.costs(&scope, today, DAYS).await.map_err(|error| match error {
        AgentSessionError::External => external(site, owner),
        error => {
            tracing::warn!(error = domain::reasons(&error), "the use of models could not be read");
            unavailable(site, owner, "The costs are not available at the moment")
        }
    })
}

fn table(
    id: &'static str,
    title: &'static str,
    is_by_cost: bool,
    rows: &[ModelCostRow],
    name: fn(&ModelCostRow) -> String,
) -> CostTable {
    let mut sums: BTreeMap<String, CostSum> = BTreeMap::new();
    for row in rows {
        *sums.entry(name(row)).or_default() += row.sum();
    }
    let mut sums: Vec<(String, CostSum)> = sums.into_iter().rev().collect();
    if is_by_cost {
        sums.sort_by_key(|(_, sum)| std::cmp::Reverse((sum.cost.unwrap_or_default(), sum.input_tokens)));
    }
    let left_out = sums.len().saturating_sub(LINES_MAX);
    sums.truncate(LINES_MAX);
    let line = |(name, sum): (String, CostSum)| CostLine {
        name,
        calls: amount(sum.calls),
        input: amount(sum.input_tokens),
        output: amount(sum.output_tokens),
        cost: sum.cost.map_or_else(|| "No price".to_owned(), |cost| cost.to_string()),
    };
    CostTable { id, title, lines: sums.into_iter().map(line).collect(), left_out }
}

fn words(day: Day) -> String {
    day.begin().format("%-d %B %Y").to_string()
}
