//! Tokens and costs of models in a period, by model, agent, project and day, and as a CSV file.

use std::collections::BTreeMap;

use app::services::activity::browse::Activity;
use app::services::agent_sessions::costs::{ModelCostRow, ModelCosts, ModelDay};
use app::services::agent_sessions::{AgentSessionError, AgentSessions};
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;
use chrono::Datelike as _;
use domain::prices::{CostKey, CostSum, costs_csv};
use domain::usage::Day;
use serde::Deserialize;

use super::AccountOwner;
use super::sessions::words::amount;
use super::sessions::{external, model_words, project_words, unavailable};
use crate::{PageError, PageLayout, PageQuery, PageResult, Site, page};

/// The periods, each with its title; the first one is shown without a choice.
const PERIODS: [(&str, &str); 4] =
    [("30-days", "Last 30 days"), ("this-week", "This week"), ("last-week", "Last week"), ("90-days", "Last 90 days")];
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
    period: &'static str,
    periods: Vec<(&'static str, &'static str, bool)>,
}

/// `?period`: 30-days, this-week, last-week or 90-days; any other value is the first one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PeriodQuery {
    period: String,
}

impl PeriodQuery {
    fn name(&self) -> &'static str {
        PERIODS.iter().map(|(name, _)| *name).find(|name| *name == self.period).unwrap_or(PERIODS[0].0)
    }

    /// The last day, and the number of days. Weeks begin on Monday.
    fn days(&self, today: Day) -> (Day, u16) {
        let weekday = u16::try_from(today.begin().weekday().num_days_from_monday()).unwrap_or(0);
        match self.name() {
            "this-week" => (today, weekday + 1),
            "last-week" => (Day::from(today.number() - i64::from(weekday) - 1), 7),
            "90-days" => (today, 90),
            _ => (today, 30),
        }
    }
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
    PageQuery(query): PageQuery<PeriodQuery>,
) -> PageResult {
    let costs = read(&site, &activity, &sessions, &owner, &query).await?;
    let table =
        |id, title, is_by_cost, name: fn(&ModelCostRow) -> String| table(id, title, is_by_cost, &costs.rows, name);
    Ok(page(
        StatusCode::OK,
        &CostsPage {
            frame: PageLayout::new(&site, Some(&owner.visitor)),
            tab: "sessions",
            period: query.name(),
            periods: PERIODS.iter().map(|(name, title)| (*name, *title, *name == query.name())).collect(),
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
    PageQuery(query): PageQuery<PeriodQuery>,
) -> PageResult {
    let costs = read(&site, &activity, &sessions, &owner, &query).await?;
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
    query: &PeriodQuery,
) -> Result<ModelCosts, PageError> {
    let scope = activity.scope(&owner.account).await.map_err(PageError::of(site))?;
    let (last, days) = query.days(Day::of(site.ports.clock.now()));
    sessions.costs(&scope, last, days).await.map_err(|error| match error {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_begin_on_monday_and_unknown_periods_are_thirty_days() {
        let days = |period: &str, today: &str| {
            let (last, count) = PeriodQuery { period: period.to_owned() }.days(today.parse().unwrap());
            (last.to_string(), count)
        };
        assert_eq!(days("last-week", "2026-11-26"), ("2026-11-22".to_owned(), 7));
        assert_eq!(days("last-week", "2026-11-23"), ("2026-11-22".to_owned(), 7));
        assert_eq!(days("this-week", "2026-11-26"), ("2026-11-26".to_owned(), 4));
        assert_eq!(days("this-week", "2026-11-22"), ("2026-11-22".to_owned(), 7));
        assert_eq!(days("always", "2026-11-26"), ("2026-11-26".to_owned(), 30));
    }
}
