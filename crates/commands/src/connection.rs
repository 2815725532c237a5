//! Options, credentials and error messages that all client commands share.

use chrono::TimeDelta;
use clap::{Args, ValueEnum};
use client::{Client, Credential, Error};
use domain::foreign::visible;
use domain::secret::{Secret, SecretKind};
use domain::{Clock, Timestamp};
use wire::agent_auth::TokenResult;

use crate::failure::Failure;
use crate::profile_folder::{Agent, Machine, Profile, ProfileFolder};

/// Base URL if neither an option nor the profile names one.
const URL: &str = "http://127.0.0.1:8080";

/// Options of every command that sends requests to a server.
#[derive(Debug, Clone, Args)]
pub struct Remote {
    /// Base URL of the server
    #[arg(long, help = "Base URL of the server [default: that of the profile, or http://127.0.0.1:8080]")]
    #[arg(alias = "server", env = "ATTACHE_URL", value_name = "URL", help_heading = "Server")]
    pub url: Option<String>,
    /// Base URL of the knowledge API [default: that of the server]
    #[arg(long, env = "ATTACHE_RAG_URL", value_name = "URL", help_heading = "Server")]
    pub rag_url: Option<String>,
    /// Profile that stores the server and its credentials
    #[arg(long, env = "ATTACHE_PROFILE", value_name = "NAME", default_value = "default", help_heading = "Server")]
    pub profile: String,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Selects the credential of a request that both a computer and an agent may send.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct CredentialArgs {
    /// Credential to use [default: this computer if registered, else the agent]
    #[arg(long = "as", value_enum, value_name = "WHO", help_heading = "Server")]
    pub whom: Option<CredentialKind>,
}

impl CredentialArgs {
    /// Selects this credential.
    pub fn of(kind: CredentialKind) -> Self {
        Self { whom: Some(kind) }
    }
}

/// The party of a credential in the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CredentialKind {
    /// The key of this profile, if it may read the account; the response covers the whole account.
    Account,
    /// This computer; the response is limited to it.
    Computer,
    /// The agent; the response covers the whole account.
    Agent,
}

/// Why a request was not sent, or failed.
#[derive(Debug)]
pub enum RequestError {
    /// The request failed, or the server refused it.
    Request(Error),
    /// The profile has no usable credential.
    Local(Failure),
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        Self::Request(error)
    }
}

impl From<Failure> for RequestError {
    fn from(failure: Failure) -> Self {
        Self::Local(failure)
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Request(error) => failed(error),
            RequestError::Local(failure) => failure,
        }
    }
}

/// A client for one server, with the profile that stores its credentials.
#[derive(Debug)]
pub struct ProfileConnection {
    /// A client without a credential.
    pub client: Client,
    /// The profile as it was last read or written.
    pub profile: Profile,
    /// The folder of the profile.
    pub folder: ProfileFolder,
    /// Whether the command prints JSON.
    pub json: bool,
    /// Name of the profile, for messages.
    name: String,
    clock: Clock,
}

impl Remote {
    /// Sets the server from an argument of the command. It replaces `ATTACHE_URL`, and is an error together with `--url`.
    pub fn with_server(mut self, server: Option<String>) -> Result<Self, Failure> {
        let Some(server) = server else { return Ok(self) };
        let variable = std::env::var("ATTACHE_URL").ok();
        if let Some(url) = self.url.filter(|url| Some(url) != variable.as_ref()) {
            return Err(Failure::refused(format!(
                "\"{server}\" and --url \"{url}\" both name a server: give one of them"
            )));
        }
        self.url = Some(server);
        Ok(self)
    }

    /// Reads the profile and builds the client; sends no request.
    pub fn open(&self) -> Result<ProfileConnection, Failure> {
        let folder = ProfileFolder::of(&self.profile)?;
        let profile = folder.profile()?;
        let url =
            self.url.as_deref().map(with_scheme).or_else(|| profile.url.clone()).unwrap_or_else(|| URL.to_owned());
        let is_known = profile.url.as_deref().is_some_and(|known| same(known, &url));
        let rag_url = self.rag_url.clone().or_else(|| profile.rag_url.clone().filter(|_| is_known));
        let client = Client::new(&client::Settings { rag_url, ..client::Settings::of(url) }).map_err(failed)?;
        let (name, clock) = (self.profile.clone(), Clock::system());
        Ok(ProfileConnection { client, profile, folder, json: self.json, name, clock })
    }

    /// The same server with another, empty profile.
    pub fn open_new(&self, profile: &str) -> Result<ProfileConnection, Failure> {
        let connection = self.open()?;
        Ok(ProfileConnection {
            profile: Profile::default(),
            folder: ProfileFolder::of(profile)?,
            name: profile.to_owned(),
            ..connection
        })
    }
}

impl ProfileConnection {
    /// Changes the profile and writes it together with the server's URL. Changes that other processes wrote in between are kept.
    pub fn change(&mut self, change: impl FnOnce(&mut Profile)) -> Result<(), Failure> {
        self.check_server()?;
        let changed = self.folder.revise(|profile| {
            // Another process may have bound the profile to another server in between.
            self.check_server_of(profile)?;
            change(profile);
            profile.url = Some(self.client.base_url().to_owned());
            let rag_url = self.client.rag_url();
            profile.rag_url = (rag_url != self.client.base_url()).then(|| rag_url.to_owned());
            Ok(())
        });
        self.profile = changed?;
        Ok(())
    }

    /// Stores the log's key without the server's URL, because no request was sent.
    pub fn keep_log_key(&mut self, key: &str) -> Result<(), Failure> {
        let changed = self.folder.revise(|profile| {
            profile.pin(key.to_owned());
            Ok(())
        });
        self.profile = changed?;
        Ok(())
    }

    /// Checks that the profile can be written, before a request with a response that contains a secret which is shown only once.
    pub fn check_writable(&self) -> Result<(), Failure> {
        self.check_server()?;
        self.folder.check_writable()
    }

    /// Refuses if the profile contains credentials of another server than `--url`, so that they are never sent to the wrong server.
    pub fn check_server(&self) -> Result<(), Failure> {
        self.check_server_of(&self.profile)
    }

    fn check_server_of(&self, profile: &Profile) -> Result<(), Failure> {
        let Some(known) = profile.url.as_deref().filter(|_| profile.is_bound()) else { return Ok(()) };
        let known_rag = profile.rag_url.as_deref().unwrap_or(known);
        if same(known, self.client.base_url()) && (same(known_rag, self.client.rag_url()) || profile.api_key.is_none())
        {
            return Ok(());
        }
        Err(Failure::refused(format!(
            "the profile \"{name}\" holds credentials of {known}, which are not sent to another server\n  \
             use another --profile for another server; if the server has moved: `attache profile move {name} --url URL`",
            name = self.name
        )))
    }

    /// The registered computer; an error if there is none.
    pub fn machine(&self) -> Result<&Machine, Failure> {
        self.check_server()?;
        self.profile.machine.as_ref().ok_or_else(|| {
            Failure::unauthorized(
                "this computer is not registered with the server: run `attache login`, or `attache machine register`",
            )
        })
    }

    /// A client with this computer's machine secret.
    pub fn as_machine(&self) -> Result<Client, Failure> {
        Ok(self.client.with(Credential::Bearer(self.machine()?.secret.clone())))
    }

    /// The registered agent; an error if there is none.
    pub fn agent(&self) -> Result<&Agent, Failure> {
        self.check_server()?;
        self.profile
            .agent
            .as_ref()
            .ok_or_else(|| Failure::unauthorized("this profile has no agent: run `attache agent register`"))
    }

    /// A client with the agent's access token. A token that expires within a minute is renewed first.
    pub async fn as_agent(&mut self) -> Result<Client, RequestError> {
        let soon = self.clock.now() + TimeDelta::minutes(1);
        let agent = self.agent()?;
        if let (Some(token), Some(expires)) = (&agent.access_token, agent.token_expires)
            && expires > soon
        {
            return Ok(self.client.with(Credential::Bearer(token.clone())));
        }
        let Some(assertion) = agent.identity_assertion.clone() else {
            return Err(Failure::unauthorized("the agent has no access token: run `attache agent claim`").into());
        };
        let tokens = self.client.token_by_assertion(&assertion).await?;
        let token = tokens.access_token.clone();
        self.keep_tokens(tokens)?;
        Ok(self.client.with(Credential::Bearer(token)))
    }

    /// Sends a request with the selected credential.
    pub async fn send_as<T>(
        &mut self,
        whom: CredentialArgs,
        ask: impl AsyncFnMut(&Client) -> Result<T, Error>,
    ) -> Result<T, RequestError> {
        let client = self.as_whom(whom).await?;
        self.send_with_renewal(client, ask).await
    }

    /// Sends a request that reads the account, and returns the credential with it. Without a selection it is sent with the key of the profile
    /// if that may read the account and the server accepts it, otherwise as by [`Self::send_as`].
    pub async fn read_account<T>(
        &mut self,
        whom: CredentialArgs,
        mut ask: impl AsyncFnMut(&Client) -> Result<T, Error>,
    ) -> Result<(T, CredentialArgs), RequestError> {
        if whom.whom.is_none() && given("ATTACHE_TOKEN").is_none() && self.profile.key_reads_account() {
            match ask(&self.as_key_of_account()?).await {
                // The person has revoked the key; the computer is attached nevertheless.
                Err(error) if error.code() == Some("unauthorized") => {}
                done => return Ok((done?, CredentialArgs::of(CredentialKind::Account))),
            }
        }
        Ok((self.send_as(whom, ask).await?, whom))
    }

    /// Ensures that the server accepts the agent's current access token.
    pub async fn renew_if_ended(&mut self) -> Result<(), RequestError> {
        let client = self.as_agent().await?;
        if self.agent()?.is_claimed() {
            self.send_with_renewal(client, async |client| client.usage_bar().await).await?;
        }
        Ok(())
    }

    /// Sends a request; if the server rejects the agent's access token, renews it and repeats the request once.
    async fn send_with_renewal<T>(
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

    /// Forgets the agent's access token if `client` sent it; returns whether it did and an identity assertion can renew it.
    fn forget_token(&mut self, client: &Client) -> bool {
        let Some(agent) = &mut self.profile.agent else { return false };
        let is_sent = |token: &mut Secret| *client.credential() == Credential::Bearer(token.clone());
        agent.access_token.take_if(is_sent).is_some() && agent.identity_assertion.is_some()
    }

    /// Stores the tokens of a token response.
    pub fn keep_tokens(&mut self, tokens: TokenResult) -> Result<(), Failure> {
        let expires = self.after(tokens.expires_in);
        let registration = self.agent()?.registration_id;
        self.change(|profile| {
            // Another process may have registered another agent in between.
            if let Some(agent) = profile.agent.as_mut().filter(|agent| agent.registration_id == registration) {
                agent.take_tokens(tokens, expires);
            }
        })
    }

    /// A client with the selected credential. Without a selection: `ATTACHE_TOKEN`, this computer if it is registered, or the agent.
    pub async fn as_whom(&mut self, CredentialArgs { whom }: CredentialArgs) -> Result<Client, RequestError> {
        match whom {
            None if given("ATTACHE_TOKEN").is_some() => self.as_account().await,
            None if self.profile.machine.is_none() && self.profile.agent.is_none() => Err(Failure::unauthorized(
                "this profile has neither a computer nor an agent: run `attache login` (or `attache attach`, or \
                 `attache agent claim`)",
            )
            .into()),
            None if self.profile.machine.is_some() => Ok(self.as_machine()?),
            Some(CredentialKind::Computer) => Ok(self.as_machine()?),
            Some(CredentialKind::Account) => Ok(self.as_key_of_account()?),
            None | Some(CredentialKind::Agent) => self.as_account().await,
        }
    }

    /// A client that acts for an account, with `ATTACHE_TOKEN` or the access token of the claimed agent.
    pub async fn as_account(&mut self) -> Result<Client, RequestError> {
        if let Some(token) = given("ATTACHE_TOKEN") {
            return Ok(self.client.with(Credential::Bearer(token)));
        }
        if !self.agent()?.is_claimed() {
            return Err(Failure::unauthorized("the agent is not claimed: run `attache agent claim`").into());
        }
        self.as_agent().await
    }

    /// A client with the key of the profile, which reads the account.
    fn as_key_of_account(&self) -> Result<Client, Failure> {
        self.check_server()?;
        let key = self.profile.api_key.clone().filter(|_| self.profile.key_reads_account());
        let key = key.ok_or_else(|| {
            Failure::unauthorized(format!(
                "this profile has no key that may read the account: `attache login` gets one; {}/account shows it in a browser",
                self.client.base_url()
            ))
        })?;
        Ok(self.client.with(Credential::Bearer(key)))
    }

    /// The credential that reads the whole account: the key of the profile, `ATTACHE_TOKEN`, or the agent.
    pub fn account_reader(&self) -> Result<CredentialArgs, Failure> {
        // An agent without a computer is the only credential of its profile, and the refusal says that it is not claimed.
        let is_alone = self.profile.machine.is_none();
        let has_agent = self.profile.agent.as_ref().is_some_and(|agent| is_alone || agent.is_claimed());
        if given("ATTACHE_TOKEN").is_some() || (has_agent && !self.profile.key_reads_account()) {
            return Ok(CredentialArgs::of(CredentialKind::Agent));
        }
        self.as_key_of_account()?;
        Ok(CredentialArgs::of(CredentialKind::Account))
    }

    /// A client with the API key: `ATTACHE_API_KEY`, or the key of the profile.
    pub fn with_key(&self) -> Result<Client, Failure> {
        let given = given("ATTACHE_API_KEY");
        if given.is_none() {
            self.check_server()?;
        }
        let key = given.or_else(|| self.profile.api_key.clone()).ok_or_else(|| {
            Failure::unauthorized(format!(
                "no API key: `attache login` gets one; or create one at {}/account/access, then run `attache key set` or set \
                 ATTACHE_API_KEY",
                self.client.base_url()
            ))
        })?;
        if !key.has_form(SecretKind::ApiKey) {
            return Err(Failure::unauthorized("malformed API key: keys begin with \"ak_\""));
        }
        Ok(self.client.with(Credential::Bearer(key)))
    }

    /// The time `seconds` from now.
    pub fn after(&self, seconds: u64) -> Timestamp {
        let later = i64::try_from(seconds).ok().and_then(TimeDelta::try_seconds);
        later.and_then(|later| self.clock.now().checked_add_signed(later)).unwrap_or(Timestamp::MAX_UTC)
    }

    /// The clock of this connection.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// The URL of a memory for a browser. The memory's URL in the knowledge API requires an API key.
pub fn page_of(client: &Client, address: &str) -> String {
    let id = address
        .strip_prefix(client.rag_url().trim_end_matches('/'))
        .and_then(|rest| rest.strip_prefix("/v1/memories/"));
    match id {
        Some(id) => format!("{}/knowledge/memories/{id}", client.base_url().trim_end_matches('/')),
        None => address.to_owned(),
    }
}

/// Adds a scheme to a server without one: http for this computer, otherwise https.
pub fn with_scheme(server: &str) -> String {
    let is_local = ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .any(|name| server.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/'])));
    match (server.contains("://"), is_local) {
        (true, _) => server.to_owned(),
        (false, true) => format!("http://{server}"),
        (false, false) => format!("https://{server}"),
    }
}

/// Whether two base URLs name the same server.
fn same(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// A credential from the environment; it is never written to the profile.
pub fn given(variable: &str) -> Option<Secret> {
    std::env::var(variable).ok().filter(|value| !value.is_empty()).map(Secret::presented)
}

/// Describes a failed request, with advice on what to do.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub fn failed(error: Error) -> Failure {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        // The intermediate causes repeat the first and the last one.
        source = cause.source();
        if source.is_none() {
            text = format!("{text}: {cause}");
        }
    }
    // The server controls parts of the text.
    let text = visible(&text);
    let advice = match (&error, error.code()) {
        (Error::Unreachable { .. }, _) => "check that the server is running and that --url is correct",
        (Error::Unreadable { .. }, _) => "check that --url is the URL of an attache server",
        (_, Some("machine_unknown")) => {
            "the server no longer has this computer: register it again with `attache machine register --again`"
        }
        (_, Some("unauthorized")) => "the credential is unknown to the server, revoked or expired",
        (_, Some("registration_closed")) => {
            "only operators register computers on this server: `attache admin machine add`"
        }
        (_, Some("invalid_grant")) => {
            "the agent was revoked, or its credentials expired: register it again with `attache agent register --again`"
        }
        (_, Some("temporarily_unavailable")) => match error.refusal().and_then(|refusal| refusal.retry_after) {
            Some(after) => {
                let reason = format!("{text}\n  try again in {} s", after.as_secs());
                return Failure::of_request(&error, reason);
            }
            None => "try again later",
        },
        (_, Some(code)) if code.starts_with("http_") => "check that --url is the URL of an attache server",
        _ => return Failure::of_request(&error, text),
    };
    Failure::of_request(&error, format!("{text}\n  {advice}"))
}

#[cfg(test)]
mod tests {
    use super::with_scheme;

    #[test]
    fn a_server_is_named_as_people_type_it() {
        assert_eq!(with_scheme("attache.example.com"), "https://attache.example.com");
        assert_eq!(with_scheme("localhost:8080"), "http://localhost:8080");
        assert_eq!(with_scheme("127.0.0.1:8080"), "http://127.0.0.1:8080");
        assert_eq!(with_scheme("localhost.example.com"), "https://localhost.example.com");
        assert_eq!(with_scheme("http://10.0.0.2"), "http://10.0.0.2");
    }
}
