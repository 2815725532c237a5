//! The client half's common part: which server, as whom, and what a person is told when it does not work.

use chrono::TimeDelta;
use clap::Args;
use client::{Client, Credential, Error};
use domain::Clock;
use domain::secret::{Secret, SecretKind};
use wire::agent_auth::TokenResult;

use super::Failure;
use super::profile::{Agent, Folder, Machine, Profile};

/// Where a server is when nobody says.
const URL: &str = "http://127.0.0.1:8080";

/// What every command that speaks to a server can be told.
#[derive(Debug, Clone, Args)]
pub struct Remote {
    /// The server [default: that of the profile, or http://127.0.0.1:8080]
    #[arg(long, env = "ATTACHE_URL", value_name = "URL", help_heading = "Server")]
    url: Option<String>,
    /// Its knowledge API, if that is not there
    #[arg(long, env = "ATTACHE_RAG_URL", value_name = "URL", help_heading = "Server")]
    rag_url: Option<String>,
    /// The profile, which remembers the server and what opens it
    #[arg(long, env = "ATTACHE_PROFILE", value_name = "NAME", default_value = "default", help_heading = "Server")]
    profile: String,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// A server, and what the profile knows of it.
#[derive(Debug)]
pub struct Connection {
    /// Shows no credential.
    pub client: Client,
    /// What is known.
    pub profile: Profile,
    /// Where that is kept.
    pub folder: Folder,
    /// Whether to answer as JSON.
    pub json: bool,
    clock: Clock,
}

impl Remote {
    /// Reads the profile; nothing is sent yet.
    pub fn open(&self) -> Result<Connection, Failure> {
        let folder = Folder::of(&self.profile)?;
        let profile = folder.profile()?;
        let url = self.url.clone().or_else(|| profile.url.clone()).unwrap_or_else(|| URL.to_owned());
        let rag_url = self.rag_url.clone().or_else(|| profile.rag_url.clone().filter(|_| self.url.is_none()));
        let client = Client::new(&client::Settings { rag_url, ..client::Settings::of(url) }).map_err(failed)?;
        Ok(Connection { client, profile, folder, json: self.json, clock: Clock::system() })
    }

    /// The same server, with a profile that knows nothing yet.
    pub fn open_new(&self, profile: &str) -> Result<Connection, Failure> {
        let known = self.open()?;
        Ok(Connection { profile: Profile::default(), folder: Folder::of(profile)?, ..known })
    }
}

impl Connection {
    /// Keeps what is known now, the server with it.
    pub fn keep(&mut self) -> Result<(), Failure> {
        self.profile.url = Some(self.client.base_url().to_owned());
        let rag_url = self.client.rag_url();
        self.profile.rag_url = (rag_url != self.client.base_url()).then(|| rag_url.to_owned());
        self.folder.keep(&self.profile)
    }

    /// This computer.
    pub fn machine(&self) -> Result<&Machine, Failure> {
        self.profile.machine.as_ref().ok_or_else(|| {
            Failure::refused("this computer is not registered with the server yet: run `attache machine register`")
        })
    }

    /// The client, as this computer.
    pub fn as_machine(&self) -> Result<Client, Failure> {
        Ok(self.client.with(Credential::Bearer(self.machine()?.secret.clone())))
    }

    /// The agent of this profile.
    pub fn agent(&self) -> Result<&Agent, Failure> {
        self.profile
            .agent
            .as_ref()
            .ok_or_else(|| Failure::refused("this profile has no agent yet: run `attache agent register`"))
    }

    /// The client, as the agent. A token that ends within a minute is exchanged for the next one first.
    pub async fn as_agent(&mut self) -> Result<Client, Failure> {
        let soon = self.clock.now() + TimeDelta::minutes(1);
        let agent = self.agent()?;
        if let (Some(token), Some(expires)) = (&agent.access_token, agent.token_expires)
            && expires > soon
        {
            return Ok(self.client.with(Credential::Bearer(token.clone())));
        }
        let Some(assertion) = agent.identity_assertion.clone() else {
            return Err(Failure::refused("the agent has no token yet: run `attache agent claim`"));
        };
        let tokens = self.client.token_by_assertion(&assertion).await.map_err(failed)?;
        let token = tokens.access_token.clone();
        self.keep_tokens(tokens)?;
        Ok(self.client.with(Credential::Bearer(token)))
    }

    /// Keeps what an exchange gave.
    pub fn keep_tokens(&mut self, tokens: TokenResult) -> Result<(), Failure> {
        let expires =
            self.clock.now() + TimeDelta::seconds(i64::try_from(tokens.expires_in).unwrap_or(i64::MAX / 1000));
        if let Some(agent) = &mut self.profile.agent {
            agent.access_token = Some(tokens.access_token);
            agent.scope = Some(tokens.scope);
            agent.token_expires = Some(expires);
            agent.identity_assertion = tokens.identity_assertion.or(agent.identity_assertion.take());
        }
        self.keep()
    }

    /// The client, as whoever may read: `ATTACHE_TOKEN`, this computer if it is registered, or else the agent.
    pub async fn as_reader(&mut self) -> Result<Client, Failure> {
        if let Some(token) = given("ATTACHE_TOKEN") {
            return Ok(self.client.with(Credential::Bearer(token)));
        }
        if self.profile.machine.is_some() { self.as_machine() } else { self.as_agent().await }
    }

    /// The client, with a key of the knowledge API: `ATTACHE_API_KEY`, or that of the profile.
    pub fn with_key(&self) -> Result<Client, Failure> {
        let key = given("ATTACHE_API_KEY").or_else(|| self.profile.api_key.clone()).ok_or_else(|| {
            Failure::refused(format!(
                "there is no key of the knowledge API: make one at {}/account/access and run `attache key set`, \
                 or put it into ATTACHE_API_KEY",
                self.client.base_url()
            ))
        })?;
        if !key.has_form(SecretKind::ApiKey) {
            return Err(Failure::refused("the key of the knowledge API has not the form of one: they begin with ak_"));
        }
        Ok(self.client.with(Credential::Bearer(key)))
    }

    /// Now.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// A credential from the environment, which the profile then does not see.
fn given(variable: &str) -> Option<Secret> {
    std::env::var(variable).ok().filter(|value| !value.is_empty()).map(Secret::presented)
}

/// What went wrong between client and server, and what a person can do about it.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub fn failed(error: Error) -> Failure {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        // Only the innermost cause says something that the others do not.
        source = cause.source();
        if source.is_none() {
            text = format!("{text}: {cause}");
        }
    }
    let advice = match (&error, error.code()) {
        (Error::Unreachable { .. }, _) => "is it running, and is --url right?",
        (Error::Unreadable { .. }, _) => "is --url that of an attache server?",
        (_, Some("machine_unknown")) => {
            "the server does not know this computer any more: register it again with `attache machine register --again`"
        }
        (_, Some("unauthorized")) => "what was presented is not accepted here, or not any more",
        (_, Some("temporarily_unavailable")) => "try again in a while",
        _ => return Failure::refused(text),
    };
    Failure::refused(format!("{text}\n  {advice}"))
}
