//! `attache attach`: shows a link, a code and a QR code, and waits until a person approves or denies this computer.
//!
//! The pending code is stored in the profile, so that the command continues with the same code after an interruption. [`super::login`] does
//! the same and also requests a key of the knowledge API.

use std::time::Duration;

use clap::Args;
use client::Client;
use domain::api_key::ApiKeyScope;
use domain::clock::date_time;
use domain::consent::ConsentLevel;
use domain::foreign::visible;
use domain::ids::{MachineUuid, RegistrationId};
use domain::lane::Lane;
use domain::secret::{Secret, SecretKind};
use domain::{Digest, Rng, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use wire::consent::ConsentAnswer;
use wire::device::{AgentWanted, CodeRequest, DeviceCodeResult, DeviceTokenResult, KeyWanted};
use wire::form;

use crate::approval_prompt::{ApprovalPrompt, PromptArgs, WaitOutcome};
use crate::connection::{ProfileConnection, Remote, failed};
use crate::failure::{Done, Failure};
use crate::machine::{self, RegistrationArgs};
use crate::profile_folder::PENDING_CODE;
use crate::terminal::{GOOD, STRONG};
use crate::{open, output, terminal};

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
    /// The requested key; it is invalid until a person approves.
    #[serde(default, with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    api_key: Option<Secret>,
    /// Scopes of that key.
    #[serde(default)]
    scopes: Vec<ApiKeyScope>,
    /// The requested agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<RegistrationId>,
}

/// The request that a person approves.
#[derive(Debug)]
pub struct Errand<'e> {
    /// Name of the command, for messages.
    pub command: &'static str,
    /// Start of the prompt, such as "To attach this computer to your account".
    pub purpose: &'e str,
    /// Scopes of the requested key of the knowledge API; empty without a key.
    pub scopes: &'e [ApiKeyScope],
    /// Agent to be confirmed too.
    pub agent: Option<AgentWanted>,
    /// The agent that is already claimed. An earlier code may have requested it.
    pub claimed: Option<RegistrationId>,
    /// Whether to open the page in the browser of this computer.
    pub browser: bool,
}

impl Errand<'_> {
    /// Whether a code that requested the agent `asked` can be used: it requests the same agent, or the agent that is already claimed.
    fn includes(&self, asked: Option<RegistrationId>) -> bool {
        asked == self.agent_id() || (self.agent.is_none() && asked.is_some() && asked == self.claimed)
    }

    fn agent_id(&self) -> Option<RegistrationId> {
        self.agent.as_ref().map(|agent| agent.registration_id)
    }
}

/// A computer that a person has just attached.
#[derive(Debug)]
pub struct ApprovedComputer {
    /// The requested key; `None` if the person declined it.
    pub api_key: Option<Secret>,
}

/// Registers this computer if it is not registered, and attaches it.
pub async fn attach(arguments: Arguments) -> Done {
    let mut connection = arguments.remote.open()?;
    if connection.profile.machine.is_none() {
        machine::register(&mut connection, &arguments.how).await?;
    }
    if connection.machine()?.user_account_id.is_some() {
        // If the computer was detached in between, its secret is revoked, and this request fails with the reason.
        connection.as_machine()?.usage_bar().await.map_err(failed)?;
        let owner = owner(&connection).await;
        show(&connection, &owner, || format!("this computer is already attached to the account of {owner}"));
        return Ok(());
    }
    let purpose = "To attach this computer to your account";
    let errand = Errand { command: "attach", purpose, scopes: &[], agent: None, claimed: None, browser: false };
    let Some(_) = approved(&mut connection, &errand, arguments.showing).await? else { return Ok(()) };
    let owner = owner(&connection).await;
    show(&connection, &owner, || {
        format!(
            "{} this computer is attached to the account of {}\n  \
             next: `attache usage` shows the allowance, `attache consent get` the consent level\n  \
             undo: detach it at {}/account",
            terminal::styled(GOOD, "✓"),
            terminal::styled(STRONG, &owner),
            connection.client.base_url(),
        )
    });
    Ok(())
}

fn show(connection: &ProfileConnection, owner: &str, words: impl FnOnce() -> String) {
    let Some(computer) = &connection.profile.machine else { return };
    let mut value = machine::shown(computer);
    value["email"] = json!(owner.contains('@').then_some(owner));
    output::show(connection.json, &value, words);
}

/// The e-mail address of the account of this computer; the account's id, if the server does not return the address.
pub async fn owner(connection: &ProfileConnection) -> String {
    let Some(computer) = &connection.profile.machine else { return String::new() };
    let known = match connection.as_machine() {
        Ok(client) => client.machine(computer.machine_uuid).await.ok(),
        Err(_) => None,
    };
    let email = known.and_then(|about| about.account).and_then(|account| account.email);
    let id = || computer.user_account_id.as_ref().map(ToString::to_string);
    email.map(|email| visible(&email)).or_else(id).unwrap_or_default()
}

/// Shows link and code and waits for the person; `None` with `--no-wait`. The attachment is stored in the profile, the key is not.
pub async fn approved(
    connection: &mut ProfileConnection,
    errand: &Errand<'_>,
    showing: PromptArgs,
) -> Result<Option<ApprovedComputer>, Failure> {
    let (pending, asked_before) = match resume(connection, errand).await? {
        Resumed::Attached(attached, api_key) => {
            let approved = keep(connection, attached, api_key)?;
            say_level(connection).await;
            return Ok(Some(approved));
        }
        Resumed::Pending(pending) => (pending, true),
        Resumed::Nothing => (ask(connection, errand).await?, false),
    };
    let code = &pending.code;
    let invitation = ApprovalPrompt {
        purpose: errand.purpose,
        link: &code.verification_uri_complete,
        code_is_to: "and approve it if the page shows this code:",
        code: &code.user_code,
        until: pending.until,
    };
    let prompt = invitation.show(connection.json, showing)?;
    if errand.browser {
        open::open_in_browser(&code.verification_uri_complete);
    }
    if showing.no_wait {
        if connection.json {
            let value = json!({
                "status": "pending",
                "machine_uuid": pending.machine_uuid,
                "user_code": code.user_code,
                "verification_uri": code.verification_uri,
                "verification_uri_complete": code.verification_uri_complete,
                "until": date_time(pending.until),
            });
            output::print_json(&value);
        }
        return Ok(None);
    }
    let answer = polled(&connection.client, code, asked_before);
    match prompt.wait("waiting for you to approve", connection.clock().now(), answer).await {
        WaitOutcome::Answered(Ok(attached)) => {
            let approved = keep(connection, attached, pending.api_key)?;
            say_level(connection).await;
            Ok(Some(approved))
        }
        WaitOutcome::Answered(Err(error)) => Err(failure_of(connection, error, errand.command)),
        WaitOutcome::Interrupted => Err(Failure::refused(format!(
            "interrupted; the link still works, and `attache {}` continues to wait",
            errand.command
        ))),
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
    Attached(DeviceTokenResult, Option<Secret>),
    Pending(Pending),
    Nothing,
}

/// Resumes the code of an earlier run, if it is still pending and requests the same.
async fn resume(connection: &ProfileConnection, errand: &Errand<'_>) -> Result<Resumed, Failure> {
    let machine = connection.machine()?;
    let stored: Option<Pending> = connection.folder.json(PENDING_CODE)?;
    let now = connection.clock().now();
    let stored = stored.filter(|stored| {
        stored.machine_uuid == machine.machine_uuid && stored.scopes == errand.scopes && errand.includes(stored.agent)
    });
    let Some(stored) = stored else { return Ok(Resumed::Nothing) };
    match connection.client.device_token(&stored.code.device_code).await {
        Ok(attached) => Ok(Resumed::Attached(attached, stored.api_key)),
        Err(error) => match error.code() {
            Some("authorization_pending" | "slow_down") if stored.until > now => Ok(Resumed::Pending(stored)),
            // Expired, denied, or replaced by a newer code.
            Some("authorization_pending" | "slow_down" | "expired_token" | "access_denied") => Ok(Resumed::Nothing),
            _ => Err(failed(error)),
        },
    }
}

async fn ask(connection: &ProfileConnection, errand: &Errand<'_>) -> Result<Pending, Failure> {
    let machine = connection.machine()?;
    let (user_cuid, machine_uuid) = (machine.user_cuid.clone(), machine.machine_uuid);
    let scopes = errand.scopes.to_vec();
    let api_key = (!scopes.is_empty()).then(|| Secret::mint(SecretKind::ApiKey, &Rng::system()));
    let wanted = api_key.as_ref().map(|key| KeyWanted { sha256: Digest::from(key.hash()), scopes: scopes.clone() });
    let request = CodeRequest { user_cuid, machine_uuid, api_key: wanted, agent: errand.agent.clone() };
    let code = connection.as_machine()?.device_code(&request).await.map_err(failed)?;
    let agent = errand.agent_id();
    let pending = Pending { machine_uuid, until: connection.after(code.expires_in), code, api_key, scopes, agent };
    connection.folder.write_json(PENDING_CODE, &pending)?;
    Ok(pending)
}

fn keep(
    connection: &mut ProfileConnection,
    attached: DeviceTokenResult,
    api_key: Option<Secret>,
) -> Result<ApprovedComputer, Failure> {
    connection.change(|profile| {
        if let Some(machine) = &mut profile.machine {
            machine.user_account_id = Some(attached.user_account_id);
        }
    })?;
    // The pending file keeps the requested key until the caller has stored it.
    if api_key.is_none() {
        connection.folder.forget(PENDING_CODE)?;
    }
    Ok(ApprovedComputer { api_key })
}

/// Prints the effective level. If the server does not respond, nothing is printed: the computer is attached in any case.
async fn say_level(connection: &ProfileConnection) {
    let Ok(client) = connection.as_machine() else { return };
    let mut levels = Vec::new();
    for lane in Lane::ALL.iter().copied() {
        match client.consent(None, Some(lane)).await {
            Ok(ConsentAnswer::Effective { level, .. }) => levels.push(level),
            _ => return,
        }
    }
    let words = match levels.as_slice() {
        [first, rest @ ..] if rest.iter().all(|level| level == first) => match first {
            ConsentLevel::Off => "nothing",
            ConsentLevel::MetadataOnly => "no content: what was done, when and for how long",
            ConsentLevel::Full => "everything, with prompts, answers and file contents",
        },
        _ => "different levels for different lanes, see `attache consent get --lane LANE`",
    };
    let base = connection.client.base_url();
    output::print_progress(connection.json, &format!("recorded is {words} (change it at {base}/account/consent)"));
}

/// The error message for a code that was denied or expired.
fn failure_of(connection: &ProfileConnection, error: client::Error, command: &str) -> Failure {
    let decided = match error.code() {
        Some("access_denied") => {
            format!("the computer was denied and is not attached; `attache {command}` requests a new code")
        }
        Some("expired_token") => {
            format!("the code has expired, or a newer one replaced it; `attache {command}` requests a new code")
        }
        _ => return failed(error),
    };
    match connection.folder.forget(PENDING_CODE) {
        Ok(()) => Failure::of_request(&error, decided),
        Err(failure) => failure,
    }
}
