//! The steps of the tour, in order; each consists of requests that any client can send.

use std::time::Duration;

use client::{Client, Credential, Error};
use domain::api_key::ApiKeyScope;
use domain::clock::date_time;
use domain::envelope::AgentKinds;
use domain::foreign::visible;
use domain::ids::{ApiKeyId, EventId};
use domain::secret::{Secret, SecretKind};
use domain::{Digest, Rng, Timestamp};
use proofs::proof::{AuditProof, ProofStatus, verify};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;
use wire::account::{Key, KeyRequest};
use wire::agent_auth::AgentClaim;
use wire::device::{CodeRequest, KeyWanted};
use wire::knowledge::{BatchRequest, Note, SearchRequest};

use super::keep::leave_month;
use super::operator::Operator;
use commands::add::{self, Report};
use commands::connection::{ProfileConnection, failed};
use commands::event::draft::{EventDraft, Line};
use commands::event::report::ReportFormat;
use commands::event::sender::EventSender;
use commands::failure::{Done, Failure};
use commands::machine::RegistrationArgs;
use commands::profile_folder::{Agent, Machine};
use commands::terminal::{FAINT, GOOD, STRONG, WARNING, styled};
use commands::{agent, api_key, machine, output, terminal};

/// Maximum wait until an event is in the signed tree.
const PROOF_WITHIN: Duration = Duration::from_secs(20);

/// Query of the last step.
const QUESTION: &str = "how do bees find their way?";

/// State of the tour.
#[derive(Debug)]
pub struct Tour<'a> {
    connection: ProfileConnection,
    /// Signs a person in, with `--auto`.
    operator: Option<Operator<'a>>,
    /// Session of the person, once signed in.
    person: Option<Credential>,
    /// API key that the tour created, until it is revoked.
    made_key: Option<ApiKeyId>,
    /// E-mail address of the person who claimed the agent.
    email: Option<String>,
    /// The event with the verified proof.
    proven: Option<EventId>,
    profile: String,
    /// Whether the events of a month were sent.
    has_month: bool,
    /// Output of `--json`, printed at the end.
    seen: Map<String, Value>,
}

impl<'a> Tour<'a> {
    /// Prepares the tour; sends no request.
    pub fn new(connection: ProfileConnection, operator: Option<Operator<'a>>, profile: String) -> Self {
        let (person, made_key, email, proven) = (None, None, None, None);
        Self { connection, operator, person, made_key, email, proven, profile, has_month: false, seen: Map::new() }
    }

    /// Runs all steps; with `leaves_month`, also leaves the events of a month.
    pub async fn go(&mut self, pages: &[String], leaves_month: bool) -> Done {
        self.print_progress(&format!("A tour of {}", self.connection.client.base_url()));
        self.agent().await?;
        self.computer().await?;
        if leaves_month {
            let sending = terminal::spinner("sending the events of a month");
            let events = leave_month(&self.connection, self.as_person().as_ref()).await;
            sending.finish_and_clear();
            let words = format!("{} events of a month of a team are recorded, to look at", domain::thousands(events?));
            self.good(&words);
            self.has_month = true;
        }
        let events = self.events().await?;
        self.proof(events[2]).await?;
        let key = self.key().await?;
        self.add(&key, pages).await?;
        self.search(&key).await
    }

    /// Prints the pages to open after a successful tour, if the server stays.
    pub fn end(&mut self, server_stays: bool) {
        if server_stays {
            self.print_pages();
        }
        if self.connection.json {
            output::print_json(&Value::Object(std::mem::take(&mut self.seen)));
        }
    }

    fn print_pages(&mut self) {
        let base = self.connection.client.base_url().to_owned();
        let who = self.email.as_deref().map(|email| format!(", signed in as {}", visible(email))).unwrap_or_default();
        let activity = format!("{base}/account/activity");
        self.print_progress(&format!("\n{}", self.strong(&format!("Worth a look now{who}:"))));
        self.print_progress(&format!("  {}  the three events", self.strong(&activity)));
        if self.has_month {
            let sessions = format!("{base}/account/sessions");
            self.print_progress(&format!(
                "  {}  the sessions of the month, and what they cost",
                self.strong(&sessions)
            ));
        }
        if let Some(event) = self.proven {
            let event = format!("{activity}/{event}");
            self.print_progress(&format!(
                "  {}\n  the proof of the last one, computed in your browser",
                self.strong(&event)
            ));
        }
        self.print_progress(&format!("  {}  the notes and pages", self.strong(&format!("{base}/knowledge"))));
        if let Some(way_in) = self.operator.as_ref().map(|operator| operator.way_in(&base)) {
            self.print_progress(&self.faint(&way_in));
        }
        self.seen.insert("activity".into(), json!(activity));
    }

    /// Ends the API key, the computer and the agent of the tour. Events and memories stay; an object stays if ending it fails.
    pub async fn clean_up(&mut self) {
        let mut ended = Vec::new();
        if let (Some(person), Some(key)) = (self.as_person(), self.made_key.take())
            && person.key_revoke(key).await.is_ok()
        {
            ended.push("the API key is revoked");
        }
        // Not `as_account`: ATTACHE_TOKEN may act for another account.
        let agent = self.connection.profile.agent.as_ref().filter(|agent| agent.is_claimed());
        if let Some((id, token)) = agent.and_then(|agent| Some((agent.registration_id, agent.access_token.clone()?))) {
            let account = self.connection.client.with(Credential::Bearer(token));
            let machine = self.connection.profile.machine.as_ref().filter(|machine| machine.user_account_id.is_some());
            if let Some(machine) = machine
                && account.machine_detach(machine.machine_uuid).await.is_ok()
            {
                ended.push("the computer is detached");
            }
            if account.agent_revoke(id).await.is_ok() {
                ended.push("the agent is revoked");
            }
        }
        if !ended.is_empty() {
            self.print_progress(&self.faint(&format!("\ncleaned up: {}", ended.join(", "))));
        }
    }

    /// Ends the person's session, which was created for this tour.
    pub async fn sign_out(&mut self) {
        let Some(person) = self.as_person() else { return };
        self.person = None;
        // A session that cannot be ended expires.
        let Ok(sessions) = person.sessions().await else { return };
        for session in sessions.sessions.iter().filter(|session| session.current) {
            let _ = person.session_revoke(session.id).await;
        }
    }

    /// Prints how to use the profile of the tour.
    pub fn kept(&self) {
        self.print_progress(&format!("\nThe profile is kept: try `attache event tail --profile {}`", self.profile));
    }

    async fn agent(&mut self) -> Done {
        self.heading(1, "An agent registers, and a person claims it");
        let client = self.connection.client.clone();
        agent::enrol(&mut self.connection, None).await?;
        let Agent { registration_id, claim_token, .. } = self.connection.agent()?.clone();
        self.print_progress(&format!("registered as {registration_id}, without access to an account"));
        if let Some(operator) = self.operator {
            self.person = Some(operator.sign_in(client.base_url(), registration_id).await?);
        }
        let claim = client.claim(&claim_token, None).await.map_err(failed)?;
        self.print_progress(&format!(
            "it shows its person a link and a code:\n  {}\n  {}",
            self.strong(&claim.verification_uri),
            self.strong(claim.user_code.expose())
        ));
        if let Some(person) = self.as_person() {
            person.complete(&attempt_of(&claim)?, &claim.user_code).await.map_err(of_operator)?;
        } else {
            self.print_progress("open the link, sign in, and type the code");
        }
        let waiting = terminal::spinner("waiting for the person");
        let tokens = client.claimed(&claim_token, &claim, |_| {}).await;
        waiting.finish_and_clear();
        let tokens = tokens.map_err(failed)?;
        let account =
            client.with(Credential::Bearer(tokens.access_token.clone())).account_summary().await.map_err(failed)?;
        let account = account.sections.account;
        self.connection.keep_tokens(tokens)?;
        let email = account.as_ref().and_then(|account| account.email.clone()).unwrap_or_else(|| "-".into());
        self.email = Some(email.clone());
        self.good(&format!("claimed by {}: it has an access token for that account now", visible(&email)));
        self.seen.insert("registration_id".into(), json!(registration_id));
        self.seen.insert("user_account_id".into(), json!(account.map(|account| account.id)));
        Ok(())
    }

    async fn computer(&mut self) -> Done {
        self.heading(2, "This computer registers, and is attached to the account");
        machine::register(&mut self.connection, &RegistrationArgs::named("computer of the demo")).await?;
        let Machine { user_cuid, machine_uuid, .. } = self.connection.machine()?.clone();
        self.print_progress(&format!("registered as {machine_uuid}, with its secret stored in the profile"));
        let computer = self.connection.as_machine()?;
        // The approval includes a key, unless one exists or an operator creates it (`docs/decisions/0004-device-codes.md`).
        let asks_for_key = self.operator.is_none() && !has_key_of_environment();
        let key = asks_for_key.then(|| Secret::mint(SecretKind::ApiKey, &Rng::system()));
        let scopes = vec![ApiKeyScope::Search, ApiKeyScope::Write];
        let api_key = key.as_ref().map(|key| KeyWanted { sha256: Digest::from(key.hash()), scopes });
        let code = computer
            .device_code(&CodeRequest { user_cuid, machine_uuid, api_key, agent: None })
            .await
            .map_err(failed)?;
        self.print_progress(&format!(
            "it shows a link and a code:\n  {}\n  {}",
            self.strong(&code.verification_uri_complete),
            self.strong(&code.user_code)
        ));
        if let Some(person) = self.as_person() {
            person.device_approve(&code.user_code).await.map_err(of_operator)?;
        } else {
            if let Some(picture) = terminal::qr_code(&code.verification_uri_complete).filter(|_| terminal::is_watched())
            {
                self.print_progress(&picture);
            }
            self.print_progress("open the link, and approve if the page shows this code");
        }
        let waiting = terminal::spinner("waiting for the person");
        let attached = computer.attached(&code, |_| {}).await;
        waiting.finish_and_clear();
        let account = attached.map_err(failed)?.user_account_id;
        self.good(&format!("attached to account {account}"));
        self.seen.insert("machine_uuid".into(), json!(machine_uuid));
        self.connection.change(|profile| {
            if let Some(machine) = &mut profile.machine {
                machine.user_account_id = Some(account);
            }
            profile.api_key = key;
        })
    }

    async fn events(&mut self) -> Result<[EventId; 3], Failure> {
        self.heading(3, "It sends three events, linked by their hashes");
        let drafts = [
            ("memory.stored", json!({ "memory_id": "demo-1", "content_bytes": 42 })),
            ("llm.completed", json!({ "model": "demo", "input_tokens": 120, "output_tokens": 7 })),
            ("skill.invoked", json!({ "skill": "demo", "succeeded": true })),
        ];
        let lines: Vec<Line> = (1..)
            .zip(drafts)
            .map(|(number, (event_type, payload))| {
                let payload = payload.as_object().cloned().unwrap_or_default();
                Line { number, draft: EventDraft::new(event_type, payload) }
            })
            .collect();
        let mut sending = EventSender::new(&self.connection, AgentKinds::CLI, ReportFormat::Silent)?;
        sending.all(&lines).await?;
        let receipts = sending.counts.receipts;
        for (line, (event, receipt)) in lines.iter().zip(&receipts) {
            self.print_progress(&format!("{}  {event}  receipt {receipt}", line.draft.event_type));
        }
        let ids: Vec<EventId> = receipts.iter().map(|(event, _)| *event).collect();
        let values: Vec<Value> =
            receipts.iter().map(|(event, receipt)| json!({ "event_id": event, "receipt_id": receipt })).collect();
        self.seen.insert("events".into(), values.into());
        let ids = ids
            .try_into()
            .map_err(|_| Failure::refused("the server held some of the events: `attache activity` shows why"))?;
        self.good("each has a receipt; resending an event returns the same receipt");
        Ok(ids)
    }

    async fn proof(&mut self, event: EventId) -> Done {
        self.heading(4, "The log proves the last event");
        let reader = self.connection.as_machine()?;
        let until = Instant::now() + PROOF_WITHIN;
        let proof = loop {
            let bytes = reader.proof(event).await.map_err(failed)?;
            let proof = AuditProof::parse(&bytes).map_err(Failure::caused)?;
            if proof.status == ProofStatus::Included {
                break proof;
            }
            if Instant::now() > until {
                return Err(Failure::refused(format!(
                    "the event is not in the signed tree after {} s",
                    PROOF_WITHIN.as_secs()
                )));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        let keys = reader.log_keys().await.map_err(failed)?.keys;
        let key = keys
            .iter()
            .find(|key| key.vkey == proof.vkey)
            .ok_or_else(|| Failure::refused("the proof names a key that the log does not publish"))?;
        let pinned = key.vkey.parse().map_err(|error| Failure::refused(format!("the log's key: {error}")))?;
        let verified =
            verify(&proof, &pinned).map_err(|fault| Failure::refused(format!("the proof does not hold: {fault}")))?;
        self.print_progress(&format!(
            "leaf {} of {}, hash {}\nsigned by {}",
            verified.leaf_index,
            verified.checkpoint.size,
            verified.self_hash,
            visible(&key.vkey)
        ));
        self.good("verified offline: the proof is valid");
        self.proven = Some(verified.event_id);
        self.seen.insert("proven".into(), json!(verified.event_id));
        Ok(())
    }

    async fn key(&mut self) -> Result<Client, Failure> {
        self.heading(5, "An API key gives access to the knowledge API");
        if let Some(person) = self.as_person() {
            let name = format!("demo of {}", date_time(self.now()));
            let request = KeyRequest { name, scopes: None, spaces: None, expires_at: None };
            let made = person.key_create(&request).await.map_err(of_operator)?;
            self.made_key = Some(made.about.id);
            self.connection.change(|profile| profile.api_key = Some(made.key))?;
            self.good(&format!("created the API key {}", made.about.id));
            return self.connection.with_key();
        }
        if has_key_of_environment() {
            let key = self.connection.with_key()?;
            return match lacks(&key).await? {
                None => {
                    self.good("ATTACHE_API_KEY contains one");
                    Ok(key)
                }
                Some(lack) => Err(Failure::refused(format!("the key in ATTACHE_API_KEY {lack}"))),
            };
        }
        let approved = self.connection.with_key()?;
        if lacks(&approved).await?.is_none() {
            self.good("the approval of the computer brought one");
            return Ok(approved);
        }
        let page = format!("{}/account/access", self.connection.client.base_url());
        self.print_progress(&format!(
            "create one at {}\nthat may both search and read, and add and change; then paste it here:",
            self.strong(&page)
        ));
        loop {
            let key = pasted().await?;
            self.connection.change(|profile| profile.api_key = Some(key))?;
            let key = self.connection.with_key()?;
            let Some(lack) = lacks(&key).await? else {
                self.good("it may add and search");
                return Ok(key);
            };
            self.print_progress(&self.warned(&format!("this key {lack}: create another one, and paste it here:")));
        }
    }

    async fn add(&mut self, key: &Client, pages: &[String]) -> Done {
        self.heading(6, "The knowledge base stores pages and notes");
        let note = |title: &str, content: &str| Note { content: content.into(), title: Some(title.into()), kind: None };
        let contents = vec![
            note(
                "Bees",
                "A honeybee steers by the sun, even behind clouds, and tells its sisters the way with a dance on the comb.",
            ),
            note(
                "Tides",
                "The moon pulls the sea towards itself; that is why there are two high tides a day, each a little later.",
            ),
            note(
                "Bread",
                "Let the dough rest in the cold overnight. Bake it in a closed pot, and open the lid for the last minutes.",
            ),
        ];
        let total = pages.len() + contents.len();
        let request = BatchRequest { urls: Some(pages.to_vec()), contents: Some(contents), spaces: None };
        let mut report = Report::of(key);
        add::add(key, &[request], true, &mut report).await?;
        for added in &report.added {
            // The URL of a note requires an API key, so the title is printed instead.
            let title = key.memory(added.id).await.map_or_else(|_| added.url.clone(), |memory| memory.title);
            self.good(&format!("{} is stored", self.strong(&visible(&title))));
        }
        // With a progress bar, each item was printed above the bar when it ended.
        if !terminal::has_bars() {
            report.skipped.iter().for_each(|skipped| self.print_progress(&skipped.line()));
            report.failed.iter().for_each(|failed| self.print_progress(&failed.line()));
        }
        let is_page = |url: &Option<String>| url.as_ref().is_some_and(|url| pages.contains(url));
        if !report.failed.iter().all(|failed| is_page(&failed.url)) {
            return Err(Failure::refused("a note could not be added"));
        }
        if !report.failed.is_empty() {
            let words = "the server could not fetch every page; the notes were added";
            self.print_progress(&self.warned(words));
        }
        self.good(&format!("{} of {total} can be found now", report.added.len()));
        self.seen.insert("added".into(), json!(report.added));
        self.seen.insert("failed".into(), json!(report.failed));
        Ok(())
    }

    async fn search(&mut self, key: &Client) -> Done {
        self.heading(7, "Search finds them by meaning, not only by keyword");
        let request = SearchRequest { query: Some(QUESTION.into()), limit: Some(1.0), ..SearchRequest::default() };
        let response = key.search(&request).await.map_err(failed)?;
        let best = response.results.first().ok_or_else(|| Failure::refused("the search returned no results"))?;
        let chunk = best.chunks.first().map_or(best.content.as_str(), |chunk| chunk.content.as_str());
        self.print_progress(&format!("? {QUESTION}"));
        self.good(&format!("{} ({:.2}): {}", self.strong(&visible(&best.title)), best.similarity, visible(chunk)));
        self.seen.insert("found".into(), json!({ "title": best.title, "similarity": best.similarity }));
        Ok(())
    }

    fn as_person(&self) -> Option<Client> {
        self.person.clone().map(|person| self.connection.client.with(person))
    }

    fn now(&self) -> Timestamp {
        self.connection.clock().now()
    }

    fn heading(&self, nth: u8, words: &str) {
        self.print_progress(&format!("\n{}", self.strong(&format!("{nth}. {words}"))));
    }

    fn good(&self, words: &str) {
        self.print_progress(&format!(
            "{} {words}",
            if self.connection.json { "✓".to_owned() } else { styled(GOOD, "✓") }
        ));
    }

    fn strong(&self, words: &str) -> String {
        if self.connection.json { words.to_owned() } else { styled(STRONG, words) }
    }

    fn warned(&self, words: &str) -> String {
        if self.connection.json { words.to_owned() } else { styled(WARNING, words) }
    }

    fn faint(&self, words: &str) -> String {
        if self.connection.json { words.to_owned() } else { styled(FAINT, words) }
    }

    /// Prints progress: to standard error if standard output is for JSON.
    fn print_progress(&self, words: &str) {
        if self.connection.json { output::print_to_stderr(words) } else { output::print(words) }
    }
}

/// The right that an API key lacks for the tour, as the end of a sentence that starts with the key.
async fn lacks(key: &Client) -> Result<Option<&'static str>, Failure> {
    match key.key().await {
        Ok(Key { scopes, .. }) if !scopes.contains(&ApiKeyScope::Search) => {
            Ok(Some("must not search: it needs the scope search"))
        }
        Ok(Key { scopes, .. }) if !scopes.contains(&ApiKeyScope::Write) => {
            Ok(Some("must not add: it needs the scope write"))
        }
        Ok(_) => Ok(None),
        Err(error) if error.code() == Some("unauthorized") => Ok(Some("is not known to the server")),
        Err(error) => Err(failed(error)),
    }
}

fn has_key_of_environment() -> bool {
    std::env::var_os("ATTACHE_API_KEY").is_some_and(|key| !key.is_empty())
}

/// Reads a pasted API key on a detached thread, so that Ctrl-C can end the tour during the read.
async fn pasted() -> Result<Secret, Failure> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        // The receiver is gone if the tour was interrupted.
        let _ = sender.send(api_key::read());
    });
    receiver.await.map_err(Failure::caused)?
}

/// The attempt token from the link of a claim.
fn attempt_of(claim: &AgentClaim) -> Result<Secret, Failure> {
    let attempt = claim.verification_uri.split_once("attempt=").map(|(_, attempt)| attempt);
    attempt.map(Secret::presented).ok_or_else(|| Failure::refused("the link of the claim contains no attempt token"))
}

/// Adds advice to a 401: the session was created in another database than the server's.
fn of_operator(error: Error) -> Failure {
    let is_unknown = error.refusal().is_some_and(|refusal| refusal.status == 401);
    let failure = failed(error);
    if !is_unknown {
        return failure;
    }
    failure.advised(
        "--auto works with the configuration of that server: run it in the same folder, or with the same --config",
    )
}
