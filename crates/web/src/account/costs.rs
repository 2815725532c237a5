//! Tokens and costs of models in the last 30 days, by model, agent, project and day, and as a CSV file.

use std::collections::BTreeMap;

use app::services::activity::browse::Activity;
use app::services::agent_sessions::costs::{MicroDollars, ModelCostRow, ModelCosts};
use app::services::agent_sessions::{AgentSessionError, AgentSessions};
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;
use domain::foreign::csv_cell;
use domain::usage::Day;

use super::AccountOwner;
use super::sessions::words::amount;
use super::sessions::{external, project_words};
use crate::{PageError, PageErrorTexts, PageLayout, PageResult, Site, page};

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

#[derive(Default)]
struct Sum {
    calls: i64,
    input_tokens: i64,
    output_tokens: i64,
    cost: MicroDollars,
    has_price: bool,
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
                table("days", "By day", false, |row| date(row.used.day)),
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
    let mut file = "day,agent,project,model,answers,input_tokens,output_tokens,cost_usd\r\n".to_owned();
    for ModelCostRow { used, cost } in &costs.rows {
        let texts = [&date(used.day), &used.agent, &used.project, &used.used.model].map(|text| csv_cell(text));
        let numbers =
            [used.used.calls, used.used.input_tokens, used.used.output_tokens].map(|number| number.to_string());
        let cost = cost.map(|cost| format!("{}.{:06}", cost.0 / 1_000_000, cost.0 % 1_000_000)).unwrap_or_default();
        let cells: Vec<String> = texts.into_iter().chain(numbers).chain([cost]).collect();
        file.push_str(&cells.join(","));
        file.push_str("\r\n");
    }
    let headers = [
        (CONTENT_TYPE, "text/csv; charset=utf-8"),
        (CONTENT_DISPOSITION, "attachment; filename=\"attache-costs.csv\""),
        (CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, file).into_response())
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
            unavailable(site, owner)
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
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for row in rows {
        let sum = sums.entry(name(row)).or_default();
        sum.calls += row.used.used.calls;
        sum.input_tokens += row.used.used.input_tokens;
        sum.output_tokens += row.used.used.output_tokens;
        sum.has_price |= row.cost.is_some();
        sum.cost += row.cost.unwrap_or_default();
    }
    let mut sums: Vec<(String, Sum)> = sums.into_iter().rev().collect();
    if is_by_cost {
        sums.sort_by_key(|(_, sum)| std::cmp::Reverse((sum.cost, sum.input_tokens)));
    }
    let left_out = sums.len().saturating_sub(LINES_MAX);
    sums.truncate(LINES_MAX);
    let line = |(name, sum): (String, Sum)| CostLine {
        name,
        calls: amount(sum.calls),
        input: amount(sum.input_tokens),
        output: amount(sum.output_tokens),
        cost: if sum.has_price { sum.cost.to_string() } else { "No price".to_owned() },
    };
    CostTable { id, title, lines: sums.into_iter().map(line).collect(), left_out }
}

fn model_words(name: &str) -> String {
    if name.is_empty() { "Not named".to_owned() } else { domain::foreign::visible(name) }
}

fn date(day: Day) -> String {
    day.begin().format("%Y-%m-%d").to_string()
}

fn words(day: Day) -> String {
    day.begin().format("%-d %B %Y").to_string()
}

fn unavailable(site: &Site, owner: &AccountOwner) -> PageError {
    PageError::shown(
        site,
        Some(&owner.visitor),
        StatusCode::SERVICE_UNAVAILABLE,
        PageErrorTexts {
            title: "The costs are not available at the moment",
            text: "The log does not answer. Nothing is lost.",
            next: "Reload this page later.",
            link: "/account/sessions".into(),
            label: "Sessions",
        },
    )
}
