//! `attache attach`: shows link, code and picture, and waits until a person decides whose this computer is.
//!
//! The code is kept in the profile while nobody has decided, so that whoever interrupts goes on with the same one.

use std::time::Duration;

use clap::Args;
use client::Client;
use domain::Timestamp;
use domain::clock::date_time;
use domain::ids::MachineUuid;
use serde::{Deserialize, Serialize};
use serde_json::json;
use wire::device::{CodeRequest, DeviceCodeResult, DeviceTokenResult};
use wire::form;

use super::invitation::{ApprovalPrompt, PromptArgs, WaitOutcome};
use super::machine::{self, How};
use super::remote::{Connection, Remote, failed};
use super::terminal::{GOOD, STRONG};
use super::{Done, Failure, output, terminal};

/// How to attach.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    showing: PromptArgs,
    #[command(flatten)]
    remote: Remote,
}

/// The name of the file with the code that waits.
pub const PENDING: &str = "attach.json";

/// A code about which nobody has decided yet.
#[derive(Debug, Serialize, Deserialize)]
struct Pending {
    machine_uuid: MachineUuid,
    #[serde(with = "form::moment")]
    until: Timestamp,
    code: DeviceCodeResult,
}

/// Registers this computer if need be, and attaches it.
pub async fn attach(arguments: Arguments) -> Done {
    let mut connection = arguments.remote.open()?;
    if connection.profile.machine.is_none() {
        machine::register(&mut connection, &arguments.how).await?;
    }
    if let Some(account) = connection.machine()?.user_account_id.clone() {
        // Detached meanwhile, its secret opens nothing any more, and the server says so.
        connection.as_machine()?.usage_bar().await.map_err(failed)?;
        let known = machine::shown(connection.machine()?);
        output::show(connection.json, &known, || format!("this computer is attached to the account {account} already"));
        return Ok(());
    }
    let (pending, asked_before) = match take_up(&connection).await? {
        Resumed::Attached(attached) => return settle(&mut connection, attached),
        Resumed::Pending(pending) => (pending, true),
        Resumed::Nothing => (ask(&connection).await?, false),
    };
    let code = &pending.code;
    let invitation = ApprovalPrompt {
        purpose: "To attach this computer to your account",
        link: &code.verification_uri_complete,
        code_is_to: "and approve it if the page shows this code:",
        code: &code.user_code,
        until: pending.until,
    };
    let shown = invitation.show(connection.json, arguments.showing)?;
    if arguments.showing.no_wait {
        if connection.json {
            let known = json!({
                "status": "pending",
                "machine_uuid": pending.machine_uuid,
                "user_code": code.user_code,
                "verification_uri": code.verification_uri,
                "verification_uri_complete": code.verification_uri_complete,
                "until": date_time(pending.until),
            });
            output::say_json(&known);
        }
        return Ok(());
    }
    let answer = polled(&connection.client, code, asked_before);
    match shown.wait("waiting for you to approve", connection.clock().now(), answer).await {
        WaitOutcome::Answered(Ok(attached)) => settle(&mut connection, attached),
        WaitOutcome::Answered(Err(error)) => Err(against(&connection, error)),
        WaitOutcome::Interrupted => {
            Err(Failure::refused("nobody has decided yet; the link still works, and `attache attach` goes on waiting"))
        }
    }
}

async fn polled(
    client: &Client,
    code: &DeviceCodeResult,
    asked_before: bool,
) -> Result<DeviceTokenResult, client::Error> {
    if asked_before {
        // The server was asked a moment ago, and counts.
        tokio::time::sleep(Duration::from_secs(code.interval)).await;
    }
    client.attached(code, |_| {}).await
}

enum Resumed {
    Attached(DeviceTokenResult),
    Pending(Pending),
    Nothing,
}

/// What became of the code that an earlier run showed.
async fn take_up(connection: &Connection) -> Result<Resumed, Failure> {
    let machine = connection.machine()?;
    let known: Option<Pending> = connection.folder.json(PENDING)?;
    let now = connection.clock().now();
    let known = known.filter(|known| known.machine_uuid == machine.machine_uuid);
    let Some(known) = known else { return Ok(Resumed::Nothing) };
    match connection.client.device_token(&known.code.device_code).await {
        Ok(attached) => Ok(Resumed::Attached(attached)),
        Err(error) => match error.code() {
            Some("authorization_pending" | "slow_down") if known.until > now => Ok(Resumed::Pending(known)),
            // Over, or another one took its place.
            Some("authorization_pending" | "slow_down" | "expired_token" | "access_denied") => Ok(Resumed::Nothing),
            _ => Err(failed(error)),
        },
    }
}

async fn ask(connection: &Connection) -> Result<Pending, Failure> {
    let machine = connection.machine()?;
    let (user_cuid, machine_uuid) = (machine.user_cuid.clone(), machine.machine_uuid);
    let code = connection.as_machine()?.device_code(&CodeRequest { user_cuid, machine_uuid }).await.map_err(failed)?;
    let pending = Pending { machine_uuid, until: connection.after(code.expires_in), code };
    connection.folder.keep_json(PENDING, &pending)?;
    Ok(pending)
}

fn settle(connection: &mut Connection, attached: DeviceTokenResult) -> Done {
    let account = attached.user_account_id.clone();
    connection.change(|profile| {
        if let Some(machine) = &mut profile.machine {
            machine.user_account_id = Some(attached.user_account_id);
        }
    })?;
    connection.folder.forget(PENDING)?;
    let known = machine::shown(connection.machine()?);
    output::show(connection.json, &known, || {
        format!(
            "{} this computer is attached to the account {}\n  next: `attache usage` shows what it may use, `attache consent get` how much is recorded",
            terminal::styled(GOOD, "✓"),
            terminal::styled(STRONG, account),
        )
    });
    Ok(())
}

/// Why it did not come to an attachment.
fn against(connection: &Connection, error: client::Error) -> Failure {
    let decided = match error.code() {
        Some("access_denied") => "the computer was denied: nobody attached it. `attache attach` asks anew",
        Some("expired_token") => {
            "the code is over: nobody approved it in time, or a newer one took its place. `attache attach` asks anew"
        }
        _ => return failed(error),
    };
    match connection.folder.forget(PENDING) {
        Ok(()) => Failure::refused(decided),
        Err(failure) => failure,
    }
}
