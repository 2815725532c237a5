//! Secrets are only with their owners: not in logs at any level, not in metrics, not in errors, not in the
//! database.

use harness::upstream::{Script, TOKEN, Upstream};
use reqwest::Method;
use serde_json::{Value, json};

use blackbox::client::{Client, Credential, Response, attempt_of};
use blackbox::eventually;
use blackbox::flow;
use blackbox::process::{Home, Server};
use harness::event::{Chain, Machine};

/// Secrets, each with its name for failure messages.
#[derive(Default)]
struct Canaries(Vec<(&'static str, String)>);

impl Canaries {
    fn keep(&mut self, name: &'static str, secret: impl Into<String>) -> String {
        let secret = secret.into();
        assert!(!secret.is_empty(), "{name}");
        self.0.push((name, secret.clone()));
        secret
    }

    /// Fails if `bytes` contains a canary.
    fn absent(&self, place: &str, bytes: &[u8]) {
        for (name, secret) in &self.0 {
            for at in positions(bytes, secret.as_bytes()) {
                let context = &bytes[at.saturating_sub(100)..bytes.len().min(at + 100)];
                // Digits may occur by chance inside a longer number, such as a time with microseconds.
                let by_chance = name.ends_with("code") && !is_separate(bytes, at, secret.len());
                assert!(by_chance, "{name} is in {place}: …{}…", String::from_utf8_lossy(context));
            }
        }
    }
}

fn positions(bytes: &[u8], needle: &[u8]) -> Vec<usize> {
    let starts = bytes.windows(needle.len()).enumerate();
    starts.filter(|(_, window)| *window == needle).map(|(at, _)| at).collect()
}

fn is_separate(bytes: &[u8], at: usize, length: usize) -> bool {
    let joined = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'.');
    !joined(at.checked_sub(1).and_then(|before| bytes.get(before))) && !joined(bytes.get(at + length))
}

/// The requests of this file: every valid one and many invalid ones.
struct Tour {
    home: Home,
    server: Server,
    canaries: Canaries,
    /// Error bodies, and answers to others than the owner.
    shown: Vec<(String, Vec<u8>)>,
}

impl Tour {
    async fn begin(home: Home) -> Self {
        let server = home.serve().await;
        Self { home, server, canaries: Canaries::default(), shown: Vec::new() }
    }

    /// An answer that must be an error.
    fn error(&mut self, what: &str, response: &Response) {
        assert!(response.status >= 400, "{what}: {response:?}");
        let headers = format!("{:?}", response.headers).into_bytes();
        self.shown.push((format!("the error of {what}"), [&response.body[..], &headers].concat()));
    }

    async fn post(&self, path: &str, credential: impl Into<Credential>, body: &Value) -> Response {
        Client::new().post(&format!("{}{path}", self.server.url), credential, body).await
    }

    async fn walk(&mut self) {
        const EMAIL: &str = "countess.of.lovelace@example.com";
        self.canaries.keep("e-mail", EMAIL);
        let cookie = self.home.run(&["admin", "session", "create", "--email", EMAIL]).said().to_owned();
        self.canaries.keep("session", cookie.split_once('=').unwrap().1);
        let person = Credential::Cookie(cookie);

        self.sign_in(EMAIL).await;
        self.feed(&person).await;
        self.audit_link(&person).await;

        // A computer, registered over HTTP and by an operator.
        let body = json!({ "user_cuid": "tz4a98xxat96iws9zmbrgj3a", "machine_uuid": flow::uuid() });
        let made =
            self.post("/api/v1/machines", Credential::Bearer("the-enrolment-key".into()), &body).await.expect(201);
        self.canaries.keep("machine secret", flow::text(&made, "machine_secret"));
        let wrong = self.post("/api/v1/machines", Credential::Bearer("the-enrolment-key-".into()), &body).await;
        self.error("a wrong enrolment key", &wrong);
        let machine = flow::machine_by_operator(&self.home);
        self.canaries.keep("machine secret of an operator", &machine.secret);

        self.attach(&machine, &person).await;

        // Claims: started twice, guessed wrong, completed.
        let registered = flow::identity(&self.server, &json!({ "type": "service_auth", "login_hint": EMAIL })).await;
        let claim_token = self.canaries.keep("claim token", flow::text(&registered, "claim_token"));
        self.canaries.keep("first attempt token", attempt_of(&registered["claim"]));
        let pending = flow::token_by_claim(&self.server, &claim_token).await;
        self.error("a claim that waits", &pending);
        let claim = flow::claim(&self.server, &claim_token).await;
        let attempt = self.canaries.keep("attempt token", attempt_of(&claim));
        let code = self.canaries.keep("user_code", flow::text(&claim, "user_code"));
        let other = format!("{:06}", (code.parse::<u32>().unwrap() + 1) % 1_000_000);
        let wrong = flow::complete(&self.server, &person, &attempt, &other).await;
        self.error("a wrong code", &wrong);
        let mismatch = self
            .post(
                "/api/v1/agent-auth/claim",
                Credential::None,
                &json!({ "claim_token": claim_token, "email": "x@example.com" }),
            )
            .await;
        self.error("another e-mail", &mismatch);
        for odd in [
            json!({ "claim_attempt_token": attempt, "user_code": format!("{code}0") }),
            json!({ "claim_attempt_token": [attempt], "user_code": code }),
        ] {
            let response = self.post("/api/v1/agent-auth/claim/complete", person.clone(), &odd).await;
            self.error("an odd completion", &response);
        }
        flow::complete(&self.server, &person, &attempt, &code).await.expect(200);
        flow::complete(&self.server, &person, &attempt, &code).await.expect(200);

        // Tokens: exchanged, used, revoked, used again.
        let tokens = flow::token_by_claim(&self.server, &claim_token).await.expect(200);
        let token = self.canaries.keep("access token", flow::text(&tokens, "access_token"));
        let assertion = self.canaries.keep("assertion", flow::text(&tokens, "identity_assertion"));
        let anonymous = flow::identity(&self.server, &json!({ "type": "anonymous" })).await;
        let unclaimed = self.canaries.keep("unclaimed assertion", flow::text(&anonymous, "identity_assertion"));
        self.canaries.keep("unclaimed claim token", flow::text(&anonymous, "claim_token"));
        let pre_claim = flow::token_by_assertion(&self.server, &unclaimed).await.expect(200);
        let pre_claim = self.canaries.keep("pre-claim token", flow::text(&pre_claim, "access_token"));
        let tampered = flow::token_by_assertion(&self.server, &format!("{assertion}x")).await;
        self.error("a touched assertion", &tampered);
        let twice = flow::form(
            &self.server,
            "token",
            &[("grant_type", "x"), ("claim_token", &claim_token), ("claim_token", &claim_token)],
        )
        .await;
        self.error("an odd grant", &twice);
        let activity = format!("{}/api/v1/activity", self.server.url);
        let foreign = Client::new().get(&activity, Credential::Bearer(pre_claim.clone())).await;
        self.error("a credential that is not taken here", &foreign);
        let odd =
            Client::new().get(&format!("{activity}?limit=0&cursor={token}"), Credential::Bearer(token.clone())).await;
        self.error("an odd query", &odd);

        // Events: forwarded, held, refused, with private content.
        let content = "the private thoughts of a countess";
        self.canaries.keep("content", content);
        let mut chain = Chain::new(&machine);
        let first = chain.next_with(|event| event["payload"]["content"] = json!(content));
        flow::event(&self.server, &machine, &first).await.receipt();
        let wrong = chain.peek_with(|event| {
            event["payload"]["content"] = json!(content);
            event["event_type"] = json!("memory.dreamt");
        });
        flow::event(&self.server, &machine, &wrong).await.warning();
        flow::event(&self.server, Credential::Bearer(pre_claim), &json!({ "n": content })).await.warning();
        let mut fork = Chain::new(&machine);
        let fork = fork.next_with(|event| event["payload"]["content"] = json!(content));
        let refused = flow::event(&self.server, &machine, &fork).await;
        if refused.status != 202 {
            self.error("a fork", &refused);
        }
        flow::form(&self.server, "revoke", &[("token", &token)]).await.expect(200);
        let revoked = Client::new().get(&activity, Credential::Bearer(token)).await;
        self.error("a revoked token", &revoked);

        for path in ["metrics", "actors", "readyz"] {
            let response = Client::new().get(&format!("{}/{path}", self.server.operator), Credential::None).await;
            assert_eq!(response.status, 200, "{path}");
            assert!(!response.body.is_empty());
            self.shown.push((format!("/{path}"), response.body.to_vec()));
        }
    }

    /// The device flow with early polls, a wrong code and two approvals; and a new API key.
    async fn attach(&mut self, machine: &Machine, person: &Credential) {
        let (device_code, user_code) = flow::device_code(&self.server, machine).await;
        self.canaries.keep("device code", &device_code);
        self.canaries.keep("device user_code", &user_code);
        self.canaries.keep("device user_code without its dash", user_code.replace('-', ""));
        for what in ["a poll", "a poll that comes too early"] {
            let polled = flow::device_token(&self.server, &device_code).await;
            self.error(what, &polled);
        }
        let wrong = flow::device_approve(&self.server, person, "BBBB-BBBB").await.unwrap();
        self.error("an unknown code", &wrong);
        flow::device_approve(&self.server, person, &user_code).await.unwrap().expect(200);
        let again = flow::device_approve(&self.server, person, &user_code).await.unwrap();
        self.error("a second approval", &again);
        flow::device_token(&self.server, &device_code).await.expect(200);
        let key = self.post("/api/v1/keys", person.clone(), &json!({ "name": "search box" })).await.expect(201);
        self.canaries.keep("API key", flow::text(&key, "key"));
    }

    /// A feed: its link is shown, read and replaced.
    async fn feed(&mut self, person: &Credential) {
        let url = self.server.url.clone();
        let submit = async |path: &str| {
            let request = Client::new().request(Method::POST, &format!("{url}{path}"), person);
            let form = request.header("origin", &url).header("content-type", "application/x-www-form-urlencoded");
            let form = form.body(if path.ends_with("link") { "" } else { "kind.event.held=1" });
            let page = Client::new().try_send(form).await.unwrap();
            let text = String::from_utf8_lossy(&page.body).into_owned();
            let token = text.split("/feeds/").nth(1).unwrap_or_else(|| panic!("{path}: {text}"));
            token.split('<').next().unwrap_or_default().to_owned()
        };
        let old = self.canaries.keep("token of a feed", submit("/account/feed").await);
        let read = async |token: &str| Client::new().get(&format!("{url}/feeds/{token}"), Credential::None).await;
        assert_eq!(read(&old).await.status, 200);
        let new = self.canaries.keep("new token of a feed", submit("/account/feed/link").await);
        assert_eq!(read(&new).await.status, 200);
        let ended = read(&old).await;
        self.error("a link that ended", &ended);
    }

    /// An audit link is shown and read.
    async fn audit_link(&mut self, person: &Credential) {
        let url = self.server.url.clone();
        let request = Client::new().request(Method::POST, &format!("{url}/account/audits"), person);
        let form = request.header("origin", &url).header("content-type", "application/x-www-form-urlencoded");
        let page = Client::new().try_send(form.body("name=Review&days=7&lane=llm&first=2026-01-01")).await.unwrap();
        let text = String::from_utf8_lossy(&page.body).into_owned();
        if page.status == 400 {
            assert!(text.contains("external statistics service"), "{text}");
            return;
        }
        let token = text.split("/audits/").nth(1).unwrap_or_else(|| panic!("{text}")).split('<').next().unwrap();
        let token = self.canaries.keep("token of an audit link", token.to_owned());
        let read = Client::new().get(&format!("{url}/audits/{token}"), Credential::None).await;
        assert_eq!(read.status, 200);
    }

    /// A sign-in on the pages: with a wrong code, then with the one from the mail.
    async fn sign_in(&mut self, email: &str) {
        let url = self.server.url.clone();
        let submit = async |path: &str, cookie: &str, body: String| {
            let request =
                Client::new().request(Method::POST, &format!("{url}{path}"), &Credential::Cookie(cookie.into()));
            let form =
                request.header("origin", &url).header("content-type", "application/x-www-form-urlencoded").body(body);
            Client::new().try_send(form).await.unwrap()
        };
        let cookie = |response: &Response, name: &str| {
            let lines = response.headers.get_all("set-cookie").iter().map(|line| line.to_str().unwrap().to_owned());
            let pair = lines.filter_map(|line| line.split(';').next().map(str::to_owned));
            pair.into_iter().find(|pair| pair.starts_with(&format!("attache.{name}="))).unwrap()
        };
        let asked = submit("/signin", "", format!("email={}", email.replace('@', "%40"))).await;
        let ticket = cookie(&asked, "signin");
        self.canaries.keep("sign-in ticket", ticket.split_once('=').unwrap().1);
        let outbox = self.home.data().join("outbox");
        let code = eventually("the mail came", async || {
            let mails = if outbox.exists() { blackbox::files(&outbox) } else { Vec::new() };
            let mail = mails.into_iter().find(|file| file.extension().is_some_and(|kind| kind == "eml"))?;
            let text = std::fs::read_to_string(mail).unwrap();
            let line = text.lines().find(|line| line.starts_with("    ") && line.trim().len() == 9)?;
            Some(line.replace(' ', ""))
        })
        .await;
        let code = self.canaries.keep("sign-in code", code);
        let other = format!("{:08}", (code.parse::<u32>().unwrap() + 1) % 100_000_000);
        assert_eq!(submit("/signin/code", &ticket, format!("code={other}")).await.status, 303);
        let entered = submit("/signin/code", &ticket, format!("code={code}")).await;
        self.canaries.keep("session of a browser", cookie(&entered, "session_token").split_once('=').unwrap().1);
        let refused = Client::new()
            .try_send(Client::new().request(Method::POST, &format!("{url}/signin/code"), &Credential::Cookie(ticket)))
            .await
            .unwrap();
        self.error("a form from nowhere", &refused);
    }

    /// Reads all outputs: logs, metrics, files.
    async fn search(mut self) {
        self.server.process.signal("TERM");
        assert_eq!(self.server.process.exit().await.code(), Some(0), "{}", self.server.process.stderr.text());
        let log = self.server.process.stderr.text();
        assert!(log.lines().count() > 50, "a loud log is loud:\n{log}");
        self.canaries.absent("the log", log.as_bytes());
        self.canaries.absent("standard output", self.server.process.stdout.text().as_bytes());
        for (place, bytes) in &self.shown {
            self.canaries.absent(place, bytes);
        }
        // The database contains e-mail addresses and the content of held and recorded events.
        self.canaries.0.retain(|(name, _)| *name != "e-mail" && *name != "content");
        let files = blackbox::files(&self.home.data());
        assert!(!files.is_empty());
        // Mails contain codes by design.
        let (mails, others): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|file| file.extension().is_some_and(|kind| kind == "eml"));
        for file in others {
            self.canaries.absent(&file.display().to_string(), &std::fs::read(&file).unwrap());
        }
        self.canaries.0.retain(|(name, _)| *name != "sign-in code");
        for file in mails {
            self.canaries.absent(&file.display().to_string(), &std::fs::read(&file).unwrap());
        }
    }
}

fn loud(format: &str) -> Home {
    Home::new()
        .set("telemetry.log", "trace")
        .set("telemetry.format", format)
        .set("machines.registration", "key")
        .set("feeds.enabled", "true")
        .set("machines.enrolment_key", "the-enrolment-key")
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_anywhere_with_the_loudest_text_log() {
    let mut tour = Tour::begin(loud("text")).await;
    tour.canaries.keep("enrolment key", "the-enrolment-key");
    tour.walk().await;
    tour.search().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_anywhere_with_the_loudest_json_log_over_a_failing_upstream() {
    let upstream = Upstream::start().await;
    let home =
        loud("json").set("upstream.url", &upstream.url()).set("upstream.token", TOKEN).set("upstream.timeout", "500ms");
    let mut tour = Tour::begin(home).await;
    tour.canaries.keep("upstream token", TOKEN);
    upstream.next(Script::twice());
    tour.walk().await;
    let machine = flow::machine_by_operator(&tour.home);
    tour.canaries.keep("machine secret", &machine.secret);
    for script in [Script::reset(), Script::hang(), Script::garbage(), Script::broken(500)] {
        let event = Chain::new(&machine).next();
        upstream.for_event(flow::text(&event, "event_id"), script);
        let response = flow::event(&tour.server, &machine, &event).await;
        tour.error("a failing upstream", &response);
    }
    for line in tour.server.process.stderr.text().lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok_and(|line| line.is_object()), "not one JSON object: {line}");
    }
    tour.search().await;
    // The service got the scope of the events and no credentials.
    upstream.assert_no_surprises();
}

#[test]
fn a_canary_is_found_in_its_output() {
    let mut canaries = Canaries::default();
    canaries.keep("token", "at_1");
    canaries.keep("user_code", "123456");
    let found = |text: &str| std::panic::catch_unwind(|| canaries.absent("here", text.as_bytes())).is_err();
    for text in ["x at_1 y", "at_1", "code 123456", "\"123456\"", "code=123456,"] {
        assert!(found(text), "{text}");
    }
    for text in ["", "at_2", "12:00:00.123456Z", "1234567", "f123456"] {
        assert!(!found(text), "{text}");
    }
}
