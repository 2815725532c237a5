//! The console's sessions and forms, as a browser and as others send them.

use std::time::Duration;

use app::config::OperatorSettings;
use blackbox::world::World;
use domain::Digest;
use domain::operator::OperatorRole;
use harness::on_each_database;
use reqwest::header::{CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use reqwest::{Client, Response, StatusCode};

const TOKEN: &str = "opr_admin";

async fn world(world: World) -> World {
    world
        .restart_with(|settings| {
            settings.admin.changes = true;
            settings.limits.operator_failures_per_minute = 3;
            settings.admin.operator = vec![OperatorSettings {
                name: "desk".into(),
                role: OperatorRole::Admin,
                uid: None,
                token_sha256: Some(Digest::of(TOKEN.as_bytes())),
                oidc: None,
            }];
        })
        .await
}

pub(super) struct Visitor {
    pub(super) base: String,
    client: Client,
    pub(super) cookie: Option<String>,
}

impl Visitor {
    pub(super) fn new(world: &World) -> Self {
        let client = http_client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { base: format!("http://{}", world.server.admin_address), client, cookie: None }
    }

    pub(super) async fn get(&self, path: &str) -> Response {
        let cookie = self.cookie.clone().unwrap_or_default();
        self.client.get(format!("{}{path}", self.base)).header(COOKIE, cookie).send().await.unwrap()
    }

    /// Sends a form with this origin.
    pub(super) async fn post(&self, path: &str, origin: Option<&str>, form: &[(&str, &str)]) -> Response {
        let cookie = self.cookie.clone().unwrap_or_default();
        let mut request = self
            .client
            .post(format!("{}{path}", self.base))
            .header(COOKIE, cookie)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(serde_urlencoded::to_string(form).unwrap());
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        request.send().await.unwrap()
    }

    async fn sign_in(&mut self, token: &str, origin: &str) -> Response {
        let response = self.post("/console/signin", Some(origin), &[("token", token)]).await;
        let cookie = response.headers().get(SET_COOKIE).map(|cookie| cookie.to_str().unwrap().to_owned());
        self.cookie = cookie.map(|cookie| cookie.split(';').next().unwrap().to_owned());
        response
    }

    /// The secret that the forms of this session contain.
    pub(super) async fn csrf(&self) -> String {
        let page = self.get("/console/do/pause_begin").await.text().await.unwrap();
        let (_, rest) = page.split_once("name=\"csrf\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }
}

pub(super) async fn acts(world: &World) -> Vec<String> {
    let acts = world.server.app.store.acts(None, 100).await.unwrap();
    acts.iter()
        .map(|act| {
            let shown = app::acts::shown(act).unwrap();
            format!("{} {}", shown.act.act.as_str(), shown.act.by)
        })
        .collect()
}

on_each_database! {
    async fn only_a_signed_in_operator_with_a_page_of_the_console_changes_something(first: World) {
        let world = world(first).await;
        let mut visitor = Visitor::new(&world);
        let own = visitor.base.clone();
        let away = visitor.get("/console/acts?by=desk").await;
        assert_eq!((away.status(), away.headers()[LOCATION].to_str().unwrap()), (StatusCode::SEE_OTHER, "/console/signin?next=%2Fconsole%2Facts%3Fby%3Ddesk"));
        for foreign in [None, Some("http://evil.example"), Some("null")] {
            let refused = visitor.post("/console/signin", foreign, &[("token", TOKEN)]).await;
            assert_eq!((refused.status(), refused.headers().contains_key(SET_COOKIE)), (StatusCode::FORBIDDEN, false), "{foreign:?}");
        }
        let entered = visitor.sign_in(TOKEN, &own).await;
        assert_eq!(entered.headers()[LOCATION], "/console/nodes");
        let cookie = entered.headers()[SET_COOKIE].to_str().unwrap().to_owned();
        assert!(cookie.starts_with("attache_operator=") && cookie.ends_with("; Path=/; Max-Age=28800; HttpOnly; SameSite=Strict"), "{cookie}");
        let page = visitor.get("/console/acts").await;
        let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
        assert!(policy.contains("frame-ancestors 'none'") && page.headers()["cache-control"] == "no-store", "{policy}");

        let csrf = visitor.csrf().await;
        let form = |csrf: &'static str| [("csrf", csrf), ("part", "mail"), ("reason", "why")];
        let path = "/console/do/pause_begin";
        for (origin, fields) in [(Some(own.as_str()), form("")), (Some(&own), form("AAAA"))] {
            let refused = visitor.post(path, origin, &fields).await;
            assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        }
        let good = [("csrf", csrf.as_str()), ("part", "mail"), ("reason", "why"), ("back", "https://evil.example/")];
        for origin in [None, Some("http://evil.example")] {
            assert_eq!(visitor.post(path, origin, &good).await.status(), StatusCode::FORBIDDEN);
        }
        let mut stranger = Visitor::new(&world);
        stranger.cookie = Some("attache_operator=AAAA".into());
        assert_eq!(stranger.post(path, Some(&own), &good).await.status(), StatusCode::SEE_OTHER);
        let prefixed = visitor.cookie.clone().unwrap();
        stranger.cookie = Some(format!("__Host-{prefixed}"));
        assert_eq!(stranger.get("/console/acts").await.status(), StatusCode::SEE_OTHER, "the session is not of https");
        stranger.cookie = Some(format!("{prefixed}; attache_operator=AAAA"));
        assert_eq!(stranger.get("/console/acts").await.status(), StatusCode::SEE_OTHER, "another party set the cookie too");
        assert_eq!(acts(&world).await, Vec::<String>::new());

        let changed = visitor.post(path, Some(&own), &good).await;
        assert_eq!((changed.status(), &changed.headers()[LOCATION]), (StatusCode::SEE_OTHER, &"/console/nodes".parse().unwrap()));
        let shown = visitor.get("/console/nodes").await.text().await.unwrap();
        assert!(shown.contains("recorded as act"), "{shown}");
        let again = visitor.post(path, Some(&own), &good).await;
        assert_eq!(again.status(), StatusCode::CONFLICT);
        assert!(again.text().await.unwrap().contains("is paused until"), "a refusal is on the page");
        assert_eq!(acts(&world).await, ["pause_begin console (desk)", "pause_begin console (desk)"]);
        assert_eq!(visitor.get("/console/do/nothing").await.status(), StatusCode::NOT_FOUND);
        assert_eq!(visitor.get("/console/nothing").await.status(), StatusCode::NOT_FOUND);
        assert_eq!(visitor.get("/console/nodes/unknown").await.status(), StatusCode::NOT_FOUND);

        // What needs the role admin needs a recent sign-in.
        let kill = format!("/console/do/actor_kill?node={}&actor=mail", app::host_name());
        let form = [("csrf", csrf.as_str()), ("node", &app::host_name()), ("actor", "mail"), ("reason", "it hangs")];
        world.advance(Duration::from_mins(16));
        let old = visitor.post(&kill, Some(&own), &form).await;
        assert_eq!(old.status(), StatusCode::FORBIDDEN);
        assert!(old.text().await.unwrap().contains("older than 15 minutes"));
        assert_eq!(visitor.post("/console/signout", Some(&own), &[]).await.status(), StatusCode::SEE_OTHER);
        assert_eq!(visitor.get("/console/acts").await.status(), StatusCode::SEE_OTHER);
        let secure = visitor.sign_in(TOKEN, &own.replace("http://", "https://")).await;
        let cookie = secure.headers()[SET_COOKIE].to_str().unwrap();
        assert!(cookie.starts_with("__Host-attache_operator=") && cookie.ends_with("; Secure"), "{cookie}");
        let csrf = visitor.csrf().await;
        let form = [("csrf", csrf.as_str()), form[1], form[2], form[3]];
        assert_eq!(visitor.post(&kill, Some(&own), &form).await.status(), StatusCode::SEE_OTHER);

        // The session ends by itself, and with its operator.
        world.advance(Duration::from_hours(8));
        assert_eq!(visitor.get("/console/acts").await.status(), StatusCode::SEE_OTHER);
        for attempt in 0..4 {
            let wrong = visitor.sign_in("opr_wrong", &own).await;
            let expected = if attempt < 3 { StatusCode::FORBIDDEN } else { StatusCode::FAILED_DEPENDENCY };
            assert_eq!(wrong.status(), expected);
        }
    }
}
