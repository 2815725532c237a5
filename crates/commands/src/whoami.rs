//! `attache whoami`: the account, computer, key and agent of the profile, according to the server.

use client::Error;
use domain::Timestamp;
use domain::foreign::visible;
use serde_json::json;
use wire::account::Key;
use wire::device::MachineAbout;

use crate::connection::{ProfileConnection, Remote, failed};
use crate::failure::{Done, Failure};
use crate::terminal::{STRONG, WARNING, styled};
use crate::{agent, moment, output};

/// State of a credential of the profile, according to the server.
#[derive(Debug)]
pub enum Known<T> {
    /// The profile has none.
    Absent,
    /// The server accepts it.
    Accepted(T),
    /// The server does not accept it.
    Rejected,
}

impl<T> Known<T> {
    /// The answer, if the server accepts the credential.
    pub fn accepted(&self) -> Option<&T> {
        match self {
            Self::Accepted(known) => Some(known),
            Self::Absent | Self::Rejected => None,
        }
    }

    /// Whether the profile has a credential that the server does not accept.
    pub fn is_rejected(&self) -> bool {
        matches!(self, Self::Rejected)
    }

    fn of(answer: Result<T, Error>) -> Result<Self, Failure> {
        match answer {
            Ok(known) => Ok(Self::Accepted(known)),
            Err(error) if error.refusal().is_some_and(|refusal| matches!(refusal.status, 401 | 403)) => {
                Ok(Self::Rejected)
            }
            Err(error) => Err(failed(error)),
        }
    }
}

/// Requests the state of the profile's computer.
pub async fn computer(connection: &ProfileConnection) -> Result<Known<MachineAbout>, Failure> {
    let Some(machine) = &connection.profile.machine else { return Ok(Known::Absent) };
    Known::of(connection.as_machine()?.machine(machine.machine_uuid).await)
}

/// Requests the state of the key of the knowledge API.
pub async fn key(connection: &ProfileConnection) -> Result<Known<Key>, Failure> {
    match connection.with_key() {
        Ok(client) => Known::of(client.key().await),
        Err(_) => Ok(Known::Absent),
    }
}

/// Scopes, spaces and expiry of a key on one line.
pub fn key_line(key: &Key, now: Timestamp) -> String {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let spaces = match key.spaces.as_deref() {
        None => "every space".to_owned(),
        Some([_]) => "1 space".to_owned(),
        Some(spaces) => format!("{} spaces", spaces.len()),
    };
    format!("{}; {spaces}; {}", scopes.join(", "), moment::until(key.expires_at, now))
}

/// Requests the state of every credential of the profile and prints it.
pub async fn whoami(remote: &Remote) -> Done {
    let mut connection = remote.open()?;
    connection.check_server()?;
    let (computer, key) = (computer(&connection).await?, key(&connection).await?);
    let of_agent = match connection.profile.agent.as_ref().filter(|agent| agent.is_claimed()) {
        Some(_) => connection.as_account().await.map_err(Failure::from)?.account_summary().await.ok(),
        None => None,
    };
    let of_computer = computer.accepted().and_then(|about| about.account.as_ref());
    let of_agent = of_agent.and_then(|summary| summary.sections.account);
    let email = of_computer.and_then(|account| account.email.clone());
    let email = email.or_else(|| of_agent.as_ref().and_then(|account| account.email.clone()));
    let account = of_computer.map(|account| account.user_account_id.clone());
    let account = account.or_else(|| of_agent.map(|account| account.id));
    let value = json!({
        "server": connection.client.base_url(),
        "profile": remote.profile,
        "email": email,
        "user_account_id": account,
        "machine_uuid": connection.profile.machine.as_ref().map(|machine| machine.machine_uuid),
        "attached": of_computer.is_some(),
        "api_key": key.accepted(),
        "agent": connection.profile.agent.as_ref().map(agent::shown),
    });
    let is_anything = connection.profile.machine.is_some() || connection.profile.agent.is_some();
    if !is_anything && matches!(key, Known::Absent) {
        return Err(Failure::unauthorized(format!(
            "the profile \"{}\" holds no credentials: `attache login` connects this computer to a server",
            remote.profile
        )));
    }
    output::show(connection.json, &value, || {
        let warned = |words: &str| styled(WARNING, words);
        let owner = email.as_deref().map_or_else(|| warned("none"), |email| styled(STRONG, visible(email)));
        let attached = match &computer {
            Known::Absent => "none: `attache login` registers it".to_owned(),
            Known::Rejected => warned("the server no longer has it: `attache login` registers it again"),
            Known::Accepted(about) if about.account.is_some() => format!("{}, attached", about.machine_uuid),
            Known::Accepted(about) => format!("{}, {}", about.machine_uuid, warned("not attached: `attache login`")),
        };
        let key = match &key {
            Known::Absent => "none: `attache login` gets one".to_owned(),
            Known::Rejected => warned("revoked or expired: `attache login` gets another"),
            Known::Accepted(key) => key_line(key, connection.clock().now()),
        };
        let agent = connection.profile.agent.as_ref().map_or_else(String::new, |agent| {
            let is_claimed = if agent.is_claimed() { "claimed" } else { "not claimed" };
            format!("\nagent     {}, {is_claimed}", agent.registration_id)
        });
        format!(
            "account   {owner}\nserver    {}\ncomputer  {attached}\nkey       {key}{agent}",
            connection.client.base_url()
        )
    });
    if computer.is_rejected() || key.is_rejected() {
        return Err(Failure::unauthorized(
            "the server does not accept a credential of this profile: run `attache login`",
        ));
    }
    Ok(())
}
