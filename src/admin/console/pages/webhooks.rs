//! `/console/webhooks`: endpoints of accounts.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use wire::ops::{AccountWebhookEntry, ObjectPage};

use crate::admin::console::deeds::query;
use crate::admin::console::sessions::ConsoleOperator;
use crate::admin::console::state::ConsoleState;
use crate::admin::console::view::{
    ConsoleFrame, ConsoleQuery, PageSection, Row, SectionPage, TableCell, Trouble, question,
};

const HERE: &str = "/console/webhooks";

/// The query of the page.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct WebhookPageQuery {
    after: String,
}

/// `GET /console/webhooks`: endpoints, oldest first.
pub async fn list(
    State(state): State<ConsoleState>,
    operator: ConsoleOperator,
    ConsoleQuery(WebhookPageQuery { after }): ConsoleQuery<WebhookPageQuery>,
) -> Result<Response, Trouble> {
    let now = state.app.clock.now();
    let conditions: &[(&str, &str)] = if after.is_empty() { &[] } else { &[("after", &after)] };
    let route = format!("/webhooks?{}", query(conditions));
    let ObjectPage { entries, next } = state.api.get::<ObjectPage<AccountWebhookEntry>>(&operator, &route).await?;
    let row = |webhook: &AccountWebhookEntry| {
        let id = webhook.id.to_string();
        let by = webhook.disabled_reason.map(|reason| reason.to_string());
        let row = Row::new([
            TableCell::mono(id.as_str()),
            TableCell::mono(webhook.user_account_id.to_string()),
            TableCell::from(webhook.host.as_str()),
            TableCell::from(by.as_deref().map_or_else(|| "enabled".to_owned(), |by| format!("disabled: {by}"))),
            TableCell::number(u64::from(webhook.failures)),
            TableCell::moment(webhook.last_success_at.as_deref(), now),
            TableCell::number(u64::from(webhook.waiting)),
            TableCell::moment(webhook.oldest_waiting_at.as_deref(), now),
        ]);
        let parameters = [("id", id.as_str())];
        let row = match by.as_deref() {
            Some("operator") => row,
            _ => row.link(question(&operator, "Disable…", "webhook_disable", &parameters, HERE)),
        };
        match by.as_deref() {
            None | Some("owner") => row,
            Some(_) => row.link(question(&operator, "Enable…", "webhook_enable", &parameters, HERE)),
        }
    };
    let columns = ["Webhook", "Account", "Host", "State", "Failures", "Last success", "Waiting", "Oldest"];
    let next = next.map(|next| format!("{HERE}?{}", query(&[("after", &next.to_string())])));
    let section = PageSection::default()
        .table(&columns, entries.iter().map(row).collect(), "No account has a webhook.")
        .next(next);
    let lead = "Endpoints of all accounts, oldest first. Paths of their URLs are not shown, since they may be secrets.";
    Ok(SectionPage::new(ConsoleFrame::of(&state, &operator, HERE).await, "Webhooks", lead).section(section).shown())
}
