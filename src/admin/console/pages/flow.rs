//! `/console/flow`: running batches, unsent mails and the outbox.

use axum::extract::State;
use axum::response::Response;
use wire::ops::{ObjectPage, OutboxChain, OutboxPage, RunningBatchEntry, UnsentMailEntry};

use crate::admin::console::sessions::ConsoleOperator;
use crate::admin::console::state::ConsoleState;
use crate::admin::console::view::{ConsoleFrame, PageSection, Row, SectionPage, TableCell, Trouble, question};

const HERE: &str = "/console/flow";

/// `GET /console/flow`: the oldest 200 of each list.
pub async fn list(State(state): State<ConsoleState>, operator: ConsoleOperator) -> Result<Response, Trouble> {
    let now = state.app.clock.now();
    let ObjectPage { entries, next } = state.api.get::<ObjectPage<RunningBatchEntry>>(&operator, "/batches").await?;
    let batch = |batch: &RunningBatchEntry| {
        let id = batch.id.to_string();
        Row::new([
            TableCell::mono(id.as_str()).to(format!("/console/keys/batches/{id}")),
            TableCell::from(batch.kind.as_str()),
            TableCell::mono(batch.user_account_id.to_string()),
            TableCell::from(format!("{} of {}", batch.processed, batch.total)),
            TableCell::moment(Some(&batch.created_at), now),
            TableCell::from(batch.runner.as_deref()),
        ])
        .link(question(&operator, "Cancel…", "batch_cancel", &[("id", &id)], HERE))
    };
    let columns = ["Batch", "Kind", "Account", "Items", "Since", "Node"];
    let mut running =
        PageSection::new("Running batches").table(&columns, entries.iter().map(batch).collect(), "No batch runs.");
    if next.is_some() {
        running = running.lead("The oldest 200. `attache admin batch list` has all.");
    }
    let ObjectPage { entries, next } = state.api.get::<ObjectPage<UnsentMailEntry>>(&operator, "/mails").await?;
    let mail = |mail: &UnsentMailEntry| {
        let id = mail.id.to_string();
        let row = Row::new([
            TableCell::mono(id.as_str()),
            TableCell::from(mail.subject.as_str()),
            TableCell::moment(Some(&mail.created_at), now),
            TableCell::number(u64::from(mail.tries)),
            mail.given_up_at
                .as_deref()
                .map_or_else(|| TableCell::moment(mail.next_try_at.as_deref(), now), |_| TableCell::from("given up")),
        ])
        .link(question(&operator, "Send…", "mail_retry", &[("id", &id)], HERE));
        if mail.given_up_at.is_some() {
            row
        } else {
            row.link(question(&operator, "Give up…", "mail_give_up", &[("id", &id)], HERE))
        }
    };
    let columns = ["Mail", "Subject", "Since", "Attempts", "Next attempt"];
    let mut unsent =
        PageSection::new("Unsent mails").table(&columns, entries.iter().map(mail).collect(), "Every mail was sent.");
    if next.is_some() {
        unsent = unsent.lead("The oldest 200. `attache admin mail list` has all.");
    }
    let OutboxPage { chains } = state.api.get(&operator, "/outbox").await?;
    let chain = |chain: &OutboxChain| {
        let oldest = TableCell::moment(Some(&chain.oldest_at), now);
        Row::new([TableCell::mono(chain.chain.as_str()), TableCell::number(chain.waiting), oldest])
    };
    let rows = chains.iter().map(chain).collect();
    let outbox = PageSection::new("Outbox")
        .lead("Events of the service itself that wait for the statistics service: acts of operators, and changes of consent of each identity.")
        .table(&["Chain", "Waiting", "Oldest"], rows, "No event waits.");
    let view = SectionPage::new(ConsoleFrame::of(&state, &operator, HERE).await, "Flow", "Work that waits or runs.");
    Ok(view.section(running).section(unsent).section(outbox).shown())
}
