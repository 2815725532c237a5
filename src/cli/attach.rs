//! `attache attach`: shows a link, a code and a QR code, and waits until a person approves or denies this computer.
//!
//! The pending code is stored in the profile, so that the command continues with the same code after an interruption.

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

use super::approval_prompt::{ApprovalPrompt, PromptArgs, WaitOutcome};
use super::connection::{ProfileConnection, Remote, failed};
use super::failure::{Done, Failure};
use super::machine::{self, RegistrationArgs};
use super::profile_folder::PENDING_CODE;
use super::terminal::{GOOD, STRONG};
use super::{output, terminal};

/// Options of `attache attach`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    how: RegistrationArgs,
    #[command(flatten)]
    showing: PromptArgs,
    #[command(flatten)]
    remote: Remote,
}

/// A device code that is neither approved nor denied.
#[derive(Debug, Serialize, Deserialize)]
struct Pending {
    machine_uuid: MachineUuid,
    #[serde(with = "form::moment")]
    until: Timestamp,
    code: DeviceCodeResult,
}

/// Registers this computer if it is not registered, and attaches it.
pub async fn attach(arguments: Arguments) -> Done {
    let mut connection = arguments.remote.open()?;
    if connection.profile.machine.is_none() {
        machine::register(&mut connection, &arguments.how).await?;
    }
    if let Some(account) = connection.machine()?.user_account_id.clone() {
        // If the computer was detached in between, its secret is revoked, and this request fails with the reason.
        connection.as_machine()?.usage_bar().await.map_err(failed)?;
        let known = machine::shown(connection.machine()?);
        output::show(connection.json, &known, || format!("this computer is already attached to the account {account}"));
        return Ok(());
    }
    let (pending, asked_before) = match resume(&connection).await? {
        Resumed::Attached(attached) => return finish(&mut connection, attached),
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
            output::print_json(&known);
        }
        return Ok(());
    }
    let answer = polled(&connection.client, code, asked_before);
    match shown.wait("waiting for you to approve", connection.clock().now(), answer).await {
        WaitOutcome::Answered(Ok(attached)) => finish(&mut connection, attached),
        WaitOutcome::Answered(Err(error)) => Err(failure_of(&connection, error)),
        WaitOutcome::Interrupted => {
            Err(Failure::refused("interrupted; the link still works, and `attache attach` continues to wait"))
        }
    }
}

async fn polled(
    client: &Client,
    code: &DeviceCodeResult,
    asked_before: bool,
) -> Result<DeviceTokenResult, client::Error> {
    if asked_before {
        // `resume` has just polled: an earlier poll than one interval from now would be answered `slow_down`.
        tokio::time::sleep(Duration::from_secs(code.interval)).await;
    }
    client.attached(code, |_| {}).await
}

enum Resumed {
    Attached(DeviceTokenResult),
    Pending(Pending),
    Nothing,
}

/// Resumes the code of an earlier run, if it is still pending.
async fn resume(connection: &ProfileConnection) -> Result<Resumed, Failure> {
    let machine = connection.machine()?;
    let known: Option<Pending> = connection.folder.json(PENDING_CODE)?;
    let now = connection.clock().now();
    let known = known.filter(|known| known.machine_uuid == machine.machine_uuid);
    let Some(known) = known else { return Ok(Resumed::Nothing) };
    match connection.client.device_token(&known.code.device_code).await {
        Ok(attached) => Ok(Resumed::Attached(attached)),
        Err(error) => match error.code() {
            Some("authorization_pending" | "slow_down") if known.until > now => Ok(Resumed::Pending(known)),
            // Expired, denied, or replaced by a newer code.
            Some("authorization_pending" | "slow_down" | "expired_token" | "access_denied") => Ok(Resumed::Nothing),
            _ => Err(failed(error)),
        },
    }
}

async fn ask(connection: &ProfileConnection) -> Result<Pending, Failure> {
    let machine = connection.machine()?;
    let (user_cuid, machine_uuid) = (machine.user_cuid.clone(), machine.machine_uuid);
    let code = connection.as_machine()?.device_code(&CodeRequest { user_cuid, machine_uuid }).await.map_err(failed)?;
    let pending = Pending { machine_uuid, until: connection.after(code.expires_in), code };
    connection.folder.write_json(PENDING_CODE, &pending)?;
    Ok(pending)
}

fn finish(connection: &mut ProfileConnection, attached: DeviceTokenResult) -> Done {
    let account = attached.user_account_id.clone();
    connection.change(|profile| {
        if let Some(machine) = &mut profile.machine {
            machine.user_account_id = Some(attached.user_account_id);
        }
    })?;
    connection.folder.forget(PENDING_CODE)?;
    let known = machine::shown(connection.machine()?);
    output::show(connection.json, &known, || {
        format!(
            "{} this computer is attached to the account {}\n  next: `attache usage` shows the allowance, `attache consent get` the consent level",
            terminal::styled(GOOD, "✓"),
            terminal::styled(STRONG, account),
        )
    });
    Ok(())
}

/// The error message for a code that was denied or expired.
fn failure_of(connection: &ProfileConnection, error: client::Error) -> Failure {
    let decided = match error.code() {
        Some("access_denied") => "the computer was denied and is not attached; `attache attach` requests a new code",
        Some("expired_token") => {
            "the code has expired, or a newer one replaced it; `attache attach` requests a new code"
        }
        _ => return failed(error),
    };
    match connection.folder.forget(PENDING_CODE) {
        Ok(()) => Failure::refused(decided),
        Err(failure) => failure,
    }
}
