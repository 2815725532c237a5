//! Operators who sign in at an OpenID provider, by a claim of theirs.

use std::time::Duration;

use app::config::{OidcSettings, OperatorClaim, OperatorSettings};
use blackbox::world::World;
use domain::Digest;
use domain::operator::OperatorRole;
use harness::oidc::{Account, CLIENT_ID, CLIENT_SECRET, EmailClaims, Forged, Provider};
use reqwest::header::SET_COOKIE;
use reqwest::{Response, StatusCode, Url};

use super::console::{Visitor, acts};

const RETURN: &str = "/console/signin/oidc";

fn operator(name: &str, role: OperatorRole, claim: &str, value: &str) -> OperatorSettings {
    let oidc = OperatorClaim { provider: "work".into(), claim: claim.into(), value: value.into() };
    OperatorSettings { name: name.into(), role, uid: None, token_sha256: None, oidc: Some(oidc) }
}

async fn world(forged: Option<&Forged>) -> Option<(World, Provider)> {
    let of_group = |subject: &str, email: &str, groups: &[&str]| Account {
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..Account::verified(subject, email)
    };
    let accounts = [
        of_group("ada", "ada@example.com", &["dev", "on-call"]),
        of_group("bob", "bob@example.com", &["dev"]),
        Account::unverified("mo", "chief@example.com"),
    ];
    let redirect = format!("http://127.0.0.1{RETURN}");
    let provider = Provider::forging(&redirect, &accounts, EmailClaims::IdToken, forged)?;
    let issuer = provider.issuer.clone();
    let world = World::with(|settings| {
        settings.admin.changes = true;
        settings.limits.operator_failures_per_minute = 2;
        settings.signin.oidc = vec![OidcSettings {
            name: "work".into(),
            label: "Work".into(),
            issuer,
            client_id: CLIENT_ID.into(),
            client_secret: Some(CLIENT_SECRET.into()),
            scopes: vec!["openid".into(), "email".into()],
        }];
        settings.admin.operator = vec![
            operator("developer", OperatorRole::Look, "groups", "dev"),
            operator("on-call", OperatorRole::Operate, "groups", "on-call"),
            operator("chief", OperatorRole::Admin, "email", "chief@example.com"),
        ];
    })
    .await;
    Some((world, provider))
}

fn cookie(response: &Response, name: &str) -> Option<String> {
    let cookies = response.headers().get_all(SET_COOKIE).iter().map(|cookie| cookie.to_str().unwrap());
    let own = cookies.map(|cookie| cookie.split(';').next().unwrap()).find(|cookie| cookie.starts_with(name));
    own.map(str::to_owned)
}

/// Leaves for the provider; returns the address that its page leads to, and keeps the cookie.
async fn leave(visitor: &mut Visitor) -> String {
    let own = visitor.base.clone();
    let form = [("provider", "work"), ("next", "/console/flow")];
    let response = visitor.post(RETURN, Some(&own), &form).await;
    assert_eq!(response.status(), StatusCode::OK);
    let line = response.headers()[SET_COOKIE].to_str().unwrap().to_owned();
    assert!(line.ends_with("; Path=/; Max-Age=600; HttpOnly; SameSite=Lax"), "{line}");
    visitor.cookie = cookie(&response, "attache_operator_return=");
    let page = response.text().await.unwrap();
    let (_, rest) = page.split_once("content=\"0; url=").unwrap();
    rest.split('"').next().unwrap().replace("&#38;", "&")
}

/// The return from the provider as this person.
async fn enter(visitor: &mut Visitor, provider: &Provider, subject: &str) -> Response {
    let authorization = leave(visitor).await;
    assert!(authorization.contains("&max_age=0&prompt=login"), "{authorization}");
    let returned: Url = provider.sign_in(&authorization, subject).await.parse().unwrap();
    let response = visitor.get(&format!("{}?{}", returned.path(), returned.query().unwrap())).await;
    if let Some(session) = cookie(&response, "attache_operator=") {
        visitor.cookie = Some(session);
    }
    response
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_enters_by_a_claim_and_leaves_with_the_configuration() {
    let Some((world, provider)) = world(None).await else { return };
    let mut visitor = Visitor::new(&world);
    let page = visitor.get("/console/signin").await.text().await.unwrap();
    assert!(page.contains("Continue with Work") && !page.contains("Token"), "no operator has a token: {page}");
    let entered = enter(&mut visitor, &provider, "ada").await;
    assert_eq!(entered.status(), StatusCode::OK);
    assert!(entered.text().await.unwrap().contains("url=/console/flow"));
    let page = visitor.get("/console/nodes").await.text().await.unwrap();
    assert!(page.contains("on-call <span class=\"muted\">(operate)"), "of two operators the higher role: {page}");
    let (own, csrf) = (visitor.base.clone(), visitor.csrf().await);
    let form = [("csrf", csrf.as_str()), ("part", "mail"), ("reason", "why")];
    let paused = visitor.post("/console/do/pause_begin", Some(&own), &form).await;
    assert_eq!(paused.status(), StatusCode::SEE_OTHER);
    assert_eq!(acts(&world).await, ["pause_begin console (on-call)"]);
    let act = app::acts::shown(&world.server.app.store.acts(None, 1).await.unwrap()[0]).unwrap();
    let author = &serde_json::json!(act)["event"]["payload"]["by"];
    let subject = Digest::of(format!("{}\nada", provider.issuer).as_bytes()).to_string();
    assert_eq!(author["subject"], subject[..16], "it tells members of a group apart");

    let mut looks = Visitor::new(&world);
    assert_eq!(enter(&mut looks, &provider, "bob").await.status(), StatusCode::OK);
    let csrf = looks.csrf().await;
    let form = [("csrf", csrf.as_str()), ("part", "intake"), ("reason", "why")];
    let refused = looks.post("/console/do/pause_begin", Some(&own), &form).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN, "the role look changes nothing");

    // An operator who leaves the file is out at once, in each browser.
    let file = world.server.app.live.configured().named.clone().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let changed = text.replace("value = \"on-call\"", "value = \"nobody\"");
    assert_ne!(text, changed);
    std::fs::write(&file, changed).unwrap();
    let act = domain::act::OperatorAct::new(
        domain::act::ActKind::ConfigReload,
        domain::act::ActAuthor::at(domain::act::ActDoor::Shell),
        "here",
    );
    world.server.app.reload(act).await.0.unwrap();
    assert_eq!(visitor.get("/console/nodes").await.status(), StatusCode::SEE_OTHER);
    assert_eq!(looks.get("/console/nodes").await.status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_other_person_and_no_other_return_enters() {
    let Some((world, provider)) = world(None).await else { return };
    let mut visitor = Visitor::new(&world);
    for foreign in [None, Some("http://evil.example")] {
        let refused = visitor.post(RETURN, foreign, &[("provider", "work")]).await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    }
    let own = visitor.base.clone();
    let unknown = visitor.post(RETURN, Some(&own), &[("provider", "home")]).await;
    assert_eq!(unknown.status(), StatusCode::NOT_FOUND);
    assert_eq!(visitor.get(&format!("{RETURN}?state=a&code=b")).await.status(), StatusCode::BAD_REQUEST);

    // A return with another state, from another browser, a second time, or too late.
    let authorization = leave(&mut visitor).await;
    let returned: Url = provider.sign_in(&authorization, "ada").await.parse().unwrap();
    let path = format!("{}?{}", returned.path(), returned.query().unwrap());
    let mut stranger = Visitor::new(&world);
    leave(&mut stranger).await;
    assert_eq!(stranger.get(&path).await.status(), StatusCode::BAD_REQUEST);
    assert_eq!(visitor.get(&path).await.status(), StatusCode::OK);
    assert_eq!(visitor.get(&path).await.status(), StatusCode::BAD_REQUEST);

    let authorization = leave(&mut visitor).await;
    let returned: Url = provider.refuse(&authorization).await.parse().unwrap();
    let declined = visitor.get(&format!("{}?{}", returned.path(), returned.query().unwrap())).await;
    assert_eq!(declined.status(), StatusCode::FORBIDDEN);

    // An address that the provider has not verified is no address. Failures are counted.
    for expected in [StatusCode::FORBIDDEN, StatusCode::FORBIDDEN, StatusCode::FAILED_DEPENDENCY] {
        let refused = enter(&mut visitor, &provider, "mo").await;
        assert_eq!((refused.status(), cookie(&refused, "attache_operator=")), (expected, None));
    }

    let authorization = leave(&mut visitor).await;
    let returned: Url = provider.sign_in(&authorization, "ada").await.parse().unwrap();
    world.advance(Duration::from_mins(10));
    let late = visitor.get(&format!("{}?{}", returned.path(), returned.query().unwrap())).await;
    assert_eq!(late.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_at_the_provider_before_this_one_began_is_none() {
    let forged = Forged { signed_in_in: Some(-600), ..Forged::default() };
    let Some((world, provider)) = world(Some(&forged)).await else { return };
    let refused = enter(&mut Visitor::new(&world), &provider, "ada").await;
    assert_eq!((refused.status(), cookie(&refused, "attache_operator=")), (StatusCode::FORBIDDEN, None));
}
