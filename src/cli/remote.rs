//! The client half's common part: which server, as whom, and what a person is told when it does not work.

use chrono::TimeDelta;
use clap::{Args, ValueEnum};
use client::{Client, Credential, Error};
use domain::foreign::visible;
use domain::secret::{Secret, SecretKind};
use domain::{Clock, Timestamp};
use wire::agent_auth::TokenResult;

use super::Failure;
use super::profile::{Agent, Folder, Machine, Profile};

/// Where a server is when nobody says.
const URL: &str = "http://127.0.0.1:8080";

/// What every command that speaks to a server can be told.
#[derive(Debug, Clone, Args)]
pub struct Remote {
    #[arg(long, help = "The server [default: that of the profile, or http://127.0.0.1:8080]")]
    #[arg(env = "ATTACHE_URL", value_name = "URL", help_heading = "Server")]
    pub url: Option<String>,
    /// Its knowledge API, if that is not there
    #[arg(long, env = "ATTACHE_RAG_URL", value_name = "URL", help_heading = "Server")]
    pub rag_url: Option<String>,
    /// The profile, which remembers the server and what opens it
    #[arg(long, env = "ATTACHE_PROFILE", value_name = "NAME", default_value = "default", help_heading = "Server")]
    pub profile: String,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// As whom something is asked that a computer and an agent may ask alike.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct CredentialArgs {
    /// As whom [default: this computer if it is registered, or else the agent]
    #[arg(long = "as", value_enum, value_name = "WHO", help_heading = "Server")]
    pub whom: Option<CredentialKind>,
}

impl CredentialArgs {
    /// As the agent.
    pub fn agent() -> Self {
        Self { whom: Some(CredentialKind::Agent) }
    }
}

/// Who can ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CredentialKind {
    /// This computer: it sees itself.
    Computer,
    /// The agent: it sees the whole account.
    Agent,
}

/// Why something was not asked, or not answered.
#[derive(Debug)]
pub enum RequestError {
    /// Between client and server.
    Asking(Error),
    /// Here: there is nothing to ask with.
    Here(Failure),
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        Self::Asking(error)
    }
}

impl From<Failure> for RequestError {
    fn from(failure: Failure) -> Self {
        Self::Here(failure)
    }
}

impl From<RequestError> for Failure {
    fn from(trouble: RequestError) -> Self {
        match trouble {
            RequestError::Asking(error) => failed(error),
            RequestError::Here(failure) => failure,
        }
    }
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
    /// The name of the profile.
    name: String,
    clock: Clock,
}

impl Remote {
    /// Reads the profile; nothing is sent yet.
    pub fn open(&self) -> Result<Connection, Failure> {
        let folder = Folder::of(&self.profile)?;
        let profile = folder.profile()?;
        let url = self.url.clone().or_else(|| profile.url.clone()).unwrap_or_else(|| URL.to_owned());
        let is_known = profile.url.as_deref().is_some_and(|known| same(known, &url));
        let rag_url = self.rag_url.clone().or_else(|| profile.rag_url.clone().filter(|_| is_known));
        let client = Client::new(&client::Settings { rag_url, ..client::Settings::of(url) }).map_err(failed)?;
        let (name, clock) = (self.profile.clone(), Clock::system());
        Ok(Connection { client, profile, folder, json: self.json, name, clock })
    }

    /// The same server, with a profile that knows nothing yet.
    pub fn open_new(&self, profile: &str) -> Result<Connection, Failure> {
        let known = self.open()?;
        Ok(Connection { profile: Profile::default(), folder: Folder::of(profile)?, name: profile.to_owned(), ..known })
    }
}

impl Connection {
    /// Changes what is known and keeps it, the server with it. What other programs kept meanwhile stays.
    pub fn change(&mut self, change: impl FnOnce(&mut Profile)) -> Result<(), Failure> {
        self.is_the_profiles()?;
        let changed = self.folder.revise(|profile| {
            // It may have become another server's meanwhile.
            self.is_of(profile)?;
            change(profile);
            profile.url = Some(self.client.base_url().to_owned());
            let rag_url = self.client.rag_url();
            profile.rag_url = (rag_url != self.client.base_url()).then(|| rag_url.to_owned());
            Ok(())
        });
        self.profile = changed?;
        Ok(())
    }

    /// Keeps the log's key and nothing of the server: nobody was asked.
    pub fn keep_log_key(&mut self, key: &str) -> Result<(), Failure> {
        let changed = self.folder.revise(|profile| {
            profile.log_key = Some(key.to_owned());
            Ok(())
        });
        self.profile = changed?;
        Ok(())
    }

    /// Whether something could be kept, before it is asked for what is shown only once.
    pub fn may_keep(&self) -> Result<(), Failure> {
        self.is_the_profiles()?;
        self.folder.may_keep()
    }

    /// What opens one server is never shown to another one, whatever `--url` says.
    pub fn is_the_profiles(&self) -> Result<(), Failure> {
        self.is_of(&self.profile)
    }

    fn is_of(&self, profile: &Profile) -> Result<(), Failure> {
        let Some(known) = profile.url.as_deref().filter(|_| profile.is_bound()) else { return Ok(()) };
        let known_rag = profile.rag_url.as_deref().unwrap_or(known);
        if same(known, self.client.base_url()) && (same(known_rag, self.client.rag_url()) || profile.api_key.is_none())
        {
            return Ok(());
        }
        Err(Failure::refused(format!(
            "the profile {name} is of {known}, and what opens that server is not shown to another one\n  \
             for another server use another --profile; if it has moved: `attache profile move {name} --url URL`",
            name = self.name
        )))
    }

    /// This computer.
    pub fn machine(&self) -> Result<&Machine, Failure> {
        self.is_the_profiles()?;
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
        self.is_the_profiles()?;
        self.profile
            .agent
            .as_ref()
            .ok_or_else(|| Failure::refused("this profile has no agent yet: run `attache agent register`"))
    }

    /// The client, as the agent. A token that ends within a minute is exchanged for the next one first.
    pub async fn as_agent(&mut self) -> Result<Client, RequestError> {
        let soon = self.clock.now() + TimeDelta::minutes(1);
        let agent = self.agent()?;
        if let (Some(token), Some(expires)) = (&agent.access_token, agent.token_expires)
            && expires > soon
        {
            return Ok(self.client.with(Credential::Bearer(token.clone())));
        }
        let Some(assertion) = agent.identity_assertion.clone() else {
            return Err(Failure::refused("the agent has no token yet: run `attache agent claim`").into());
        };
        let tokens = self.client.token_by_assertion(&assertion).await?;
        let token = tokens.access_token.clone();
        self.keep_tokens(tokens)?;
        Ok(self.client.with(Credential::Bearer(token)))
    }

    /// Asks as whom a person says.
    pub async fn asked<T>(
        &mut self,
        whom: CredentialArgs,
        ask: impl AsyncFnMut(&Client) -> Result<T, Error>,
    ) -> Result<T, RequestError> {
        let client = self.as_whom(whom).await?;
        self.asked_by(client, ask).await
    }

    /// Sees to it that the agent's token is one that the server takes right now.
    pub async fn renew_if_ended(&mut self) -> Result<(), RequestError> {
        let client = self.as_agent().await?;
        if self.agent()?.is_claimed() {
            self.asked_by(client, async |client| client.usage_bar().await).await?;
        }
        Ok(())
    }

    /// A token of the agent that was ended elsewhere is exchanged for the next one, once.
    async fn asked_by<T>(
        &mut self,
        client: Client,
        mut ask: impl AsyncFnMut(&Client) -> Result<T, Error>,
    ) -> Result<T, RequestError> {
        match ask(&client).await {
            Err(error) if error.code() == Some("unauthorized") && self.forget_token(&client) => {
                Ok(ask(&self.as_agent().await?).await?)
            }
            done => Ok(done?),
        }
    }

    /// Whether it was the agent's token that the client showed, and there is something to get the next one for. It is not shown again.
    fn forget_token(&mut self, client: &Client) -> bool {
        let Some(agent) = &mut self.profile.agent else { return false };
        let shown = |token: &mut Secret| *client.credential() == Credential::Bearer(token.clone());
        agent.access_token.take_if(shown).is_some() && agent.identity_assertion.is_some()
    }

    /// Keeps what an exchange gave.
    pub fn keep_tokens(&mut self, tokens: TokenResult) -> Result<(), Failure> {
        let expires = self.after(tokens.expires_in);
        let registration = self.agent()?.registration_id;
        self.change(|profile| {
            // Another program may have registered another agent meanwhile.
            if let Some(agent) = profile.agent.as_mut().filter(|agent| agent.registration_id == registration) {
                agent.access_token = Some(tokens.access_token);
                agent.scope = Some(tokens.scope);
                agent.token_expires = Some(expires);
                agent.identity_assertion = tokens.identity_assertion.or(agent.identity_assertion.take());
            }
        })
    }

    /// The client, as whom a person says; or else as whoever may read: `ATTACHE_TOKEN`, this computer if it is registered, or the agent.
    pub async fn as_whom(&mut self, CredentialArgs { whom }: CredentialArgs) -> Result<Client, RequestError> {
        match whom {
            None if given("ATTACHE_TOKEN").is_some() => self.as_account().await,
            None if self.profile.machine.is_none() && self.profile.agent.is_none() => Err(Failure::refused(
                "this profile knows neither a computer nor an agent: run `attache attach` or `attache agent claim`",
            )
            .into()),
            None if self.profile.machine.is_some() => Ok(self.as_machine()?),
            Some(CredentialKind::Computer) => Ok(self.as_machine()?),
            None | Some(CredentialKind::Agent) => self.as_account().await,
        }
    }

    /// The client, as somebody who acts for an account: `ATTACHE_TOKEN`, or the claimed agent.
    pub async fn as_account(&mut self) -> Result<Client, RequestError> {
        if let Some(token) = given("ATTACHE_TOKEN") {
            return Ok(self.client.with(Credential::Bearer(token)));
        }
        if !self.agent()?.is_claimed() {
            return Err(Failure::refused("nobody has confirmed the agent yet: run `attache agent claim`").into());
        }
        self.as_agent().await
    }

    /// The client, with a key of the knowledge API: `ATTACHE_API_KEY`, or that of the profile.
    pub fn with_key(&self) -> Result<Client, Failure> {
        let given = given("ATTACHE_API_KEY");
        if given.is_none() {
            self.is_the_profiles()?;
        }
        let key = given.or_else(|| self.profile.api_key.clone()).ok_or_else(|| {
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

    /// The moment that is so many seconds from now.
    pub fn after(&self, seconds: u64) -> Timestamp {
        let later = i64::try_from(seconds).ok().and_then(TimeDelta::try_seconds);
        later.and_then(|later| self.clock.now().checked_add_signed(later)).unwrap_or(Timestamp::MAX_UTC)
    }

    /// Now.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// Whether two addresses are the same server.
fn same(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
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
    // Partly the server's own words.
    let text = visible(&text);
    let advice = match (&error, error.code()) {
        (Error::Unreachable { .. }, _) => "is it running, and is --url right?",
        (Error::Unreadable { .. }, _) => "is --url that of an attache server?",
        (_, Some("machine_unknown")) => {
            "the server does not know this computer any more: register it again with `attache machine register --again`"
        }
        (_, Some("unauthorized")) => "what was presented is not accepted here, or not any more",
        (_, Some("registration_closed")) => "an operator registers computers here: `attache admin machine add`",
        (_, Some("invalid_grant")) => {
            "the agent was revoked, or was away for too long: register it again with `attache agent register --again`"
        }
        (_, Some("temporarily_unavailable")) => match error.refusal().and_then(|refusal| refusal.retry_after) {
            Some(after) => return Failure::refused(format!("{text}\n  try again in {} s", after.as_secs())),
            None => "try again in a while",
        },
        (_, Some(code)) if code.starts_with("http_") => "is --url that of an attache server?",
        _ => return Failure::refused(text),
    };
    Failure::refused(format!("{text}\n  {advice}"))
}
