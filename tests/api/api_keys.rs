//! Keys of the knowledge API (`docs/decisions/0020-keys-and-spaces.md`).

use serde_json::{Value, json};

use blackbox::browser::Browser;
use blackbox::client::{Credential, Response};
use blackbox::world::World;
use harness::on_sqlite;

const KEYS: &str = "/api/v1/keys";

async fn make(world: &World, credential: &Credential, body: Value) -> Response {
    world.post(KEYS, credential, &body).await
}

on_sqlite! {
    async fn an_api_key_is_shown_once_listed_and_revoked(world: World) {
        let person = world.person("ada@example.com").await;
        let agent = world.agent_of(&person).await;
        let stranger = world.person("bob@example.com").await;
        // A public space of another account.
        let librarian = world.key(&stranger, json!({ "name": "x" })).await;
        let space = world.space(&librarian, "Public", true).await;
        let made = make(&world, &person.cookie, json!({ "name": " search box ", "scopes": ["search"], "spaces": [space] })).await.expect(201);
        assert!(made["key"].as_str().unwrap().starts_with("ak_"));
        assert_eq!((&made["name"], &made["scopes"], &made["spaces"]), (&json!("search box"), &json!(["search"]), &json!([space])));
        let all = make(&world, &person.cookie, json!({ "name": "all", "expires_at": "2099-01-01T00:00:00Z" })).await.expect(201);
        assert_eq!((&all["scopes"], &all["spaces"]), (&json!(["search", "write", "settings"]), &Value::Null));
        // A null member counts as absent.
        let nulls = json!({ "name": "nulls", "scopes": null, "spaces": null, "expires_at": null });
        let nulls = make(&world, &person.cookie, nulls).await.expect(201);
        assert_eq!((&nulls["scopes"], &nulls["spaces"], &nulls["expires_at"]), (&all["scopes"], &Value::Null, &Value::Null));
        world.delete(&format!("{KEYS}/{}", nulls["id"].as_str().unwrap()), &person.cookie).await.expect(200);
        let listed = world.get(KEYS, &person.cookie).await;
        let body = listed.expect(200);
        assert_eq!(body["keys"].as_array().unwrap().len(), 3);
        assert!(!String::from_utf8_lossy(&listed.body).contains("ak_"), "a key is shown once");
        let path = format!("{KEYS}/{}", made["id"].as_str().unwrap());
        // An agent lists keys and neither creates nor revokes any: they would outlive it.
        assert_eq!(&world.get(KEYS, &agent.token).await.expect(200), &body);
        make(&world, &agent.token, json!({ "name": "x" })).await.refused(401, "unauthorized");
        world.delete(&path, &agent.token).await.refused(401, "unauthorized");
        world.delete(&path, &stranger.cookie).await.refused(404, "not_found");
        assert_eq!(world.delete(&path, &person.cookie).await.expect(200), json!({ "ok": true }));
        world.delete(&path, &person.cookie).await.refused(404, "not_found");
        world.delete(&format!("{KEYS}/nonsense"), &person.cookie).await.refused(404, "not_found");
        let keys = world.get(KEYS, &person.cookie).await.expect(200)["keys"].clone();
        assert!(keys[1]["revoked_at"].is_string() && keys[0]["revoked_at"].is_null());
        let theirs = world.get(KEYS, &stranger.cookie).await.expect(200)["keys"].clone();
        assert_eq!((theirs.as_array().unwrap().len(), &theirs[0]["name"]), (1, &json!("x")));
    }

    async fn a_key_reads_the_account_only_with_the_scope_that_names_it(world: World) {
        let person = world.person("ada@example.com").await;
        let other = world.person("bob@example.com").await;
        let machine = world.attached_machine(&person).await;
        world.attached_machine(&other).await;
        let key = async |body: Value| world.key(&person, body).await;
        let all = key(json!({ "name": "all" })).await;
        let space = world.space(&all, "Kitchen", false).await;
        let limited = key(json!({ "name": "limited", "spaces": [space] })).await;
        let reader = key(json!({ "name": "reader", "scopes": ["account"], "spaces": [space] })).await;
        let paths = ["/api/v1/account/summary", "/api/v1/account/computers", "/api/v1/usage/bar", "/api/v1/activity", "/api/v1/consent"];
        for path in paths {
            let seen = async |credential: &Credential| {
                let mut body = world.get(path, credential).await.expect(200);
                body["generated_at"] = Value::Null;
                body
            };
            assert_eq!(seen(&reader).await, seen(&person.cookie).await, "{path}");
            for without in [&all, &limited] {
                world.get(path, without).await.refused(401, "unauthorized");
            }
        }
        let computers = world.get("/api/v1/account/computers", &reader).await.expect(200)["computers"].clone();
        assert_eq!((computers.as_array().unwrap().len(), &computers[0]["machine_uuid"]), (1, &json!(machine.uuid)));
        // It opens no memory, and neither keys nor sessions nor webhooks.
        assert_eq!(world.search(&reader, json!({ "query": "x" })).await.refused(403, "insufficient_scope")["scope"], "search");
        for path in [KEYS, "/api/v1/sessions", "/api/v1/webhooks"] {
            world.get(path, &reader).await.refused(401, "unauthorized");
        }
        assert_eq!(world.get("/v1/key", &reader).await.expect(200)["scopes"], json!(["account"]));
        let keys = world.get(KEYS, &person.cookie).await.expect(200)["keys"].clone();
        world.delete(&format!("{KEYS}/{}", keys[0]["id"].as_str().unwrap()), &person.cookie).await.expect(200);
        world.get("/api/v1/account/summary", &reader).await.refused(401, "unauthorized");
    }

    async fn creating_an_api_key_requires_a_recent_sign_in(world: World) {
        let person = world.person("ada@example.com").await;
        let key = make(&world, &person.cookie, json!({ "name": "before" })).await.expect(201);
        world.advance(std::time::Duration::from_mins(16));
        let response = make(&world, &person.cookie, json!({ "name": "x" })).await;
        assert_eq!(response.refused(401, "unauthorized")["reason"], "sign_in_again");
        assert!(response.header("www-authenticate").unwrap().contains("insufficient_user_authentication"));
        let browser = Browser::of(&world, &person);
        let page = browser.get("/account/access").await;
        assert!(page.page(200).contains("Sign in again to create a key") && !page.page(200).contains("Create the key"));
        let id = world.rng().uuid_v7(world.clock().now()).to_string();
        let form = |days: &'static str| [("id", id.clone()), ("name", "x".into()), ("search", "1".into()), ("days", days.to_owned())];
        let sent = async |browser: &Browser<'_>, days| {
            let form = form(days);
            let pairs: Vec<(&str, &str)> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
            browser.submit("/account/keys", &pairs).await
        };
        assert!(sent(&browser, "never").await.header("location").unwrap().starts_with("/signin?next="));
        // Listing and revoking keys need no recent sign-in.
        let path = format!("{KEYS}/{}", key["id"].as_str().unwrap());
        world.delete(&path, &person.cookie).await.expect(200);

        let fresh = world.person("ada@example.com").await;
        let browser = Browser::of(&world, &fresh);
        for days in ["", "0", "forever", "36500"] {
            let page = sent(&browser, days).await;
            assert!(page.page(400).contains("Choose when the key expires"), "{days:?}");
        }
        let keys = async || world.get(KEYS, &fresh.cookie).await.expect(200)["keys"].clone();
        assert_eq!(keys().await.as_array().unwrap().len(), 1);
        sent(&browser, "never").await.page(200);
        let made = keys().await[0].clone();
        assert_eq!((&made["name"], &made["expires_at"]), (&json!("x"), &Value::Null));
    }

    async fn an_api_key_names_only_spaces_with_read_permission(world: World) {
        let (person, key) = world.librarian("ada@example.com").await;
        let (_, strange) = world.librarian("bob@example.com").await;
        let (own, public) = (world.space(&key, "Own", false).await, world.space(&strange, "Public", true).await);
        let private = world.space(&strange, "Private", false).await;
        let unknown = "019b76da-a800-7a67-8a14-94a3f41b0634";
        let made = make(&world, &person.cookie, json!({ "name": "x", "spaces": [own, public, own] })).await.expect(201);
        assert_eq!(made["spaces"], json!([own, public]), "each is named once");
        for (spaces, path) in [
            (json!([private]), "spaces[0]"),
            (json!([unknown]), "spaces[0]"),
            (json!([own, public, unknown, private]), "spaces[2]"),
        ] {
            let refused = make(&world, &person.cookie, json!({ "name": "y", "spaces": spaces })).await;
            assert_eq!(refused.refused(400, "invalid_request")["issues"][0]["path"], path, "{spaces}");
        }
        let keys = world.get(KEYS, &person.cookie).await.expect(200)["keys"].clone();
        assert!(keys.as_array().unwrap().iter().all(|key| key["name"] != "y"));
    }

    async fn every_fault_of_an_api_key_is_an_issue_with_its_path(world: World) {
        let person = world.person("ada@example.com").await;
        for (body, path) in [
            (json!({}), "name"),
            (json!({ "name": "" }), "name"),
            (json!({ "name": "x".repeat(101) }), "name"),
            (json!({ "name": "x", "scopes": ["everything"] }), "scopes[0]"),
            (json!({ "name": "x", "scopes": [] }), "scopes"),
            (json!({ "name": "x", "spaces": [] }), "spaces"),
            (json!({ "name": "x", "spaces": ["x"] }), "spaces[0]"),
            (json!({ "name": "x", "expires_at": "2001-01-01T00:00:00Z" }), "expires_at"),
            (json!({ "name": "x", "more": 1 }), "more"),
        ] {
            let refused = make(&world, &person.cookie, body.clone()).await.refused(400, "invalid_request");
            assert_eq!(refused["issues"][0]["path"], path, "{body}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn api_keys_per_account_are_limited() {
    let world = World::with(|settings| settings.api_keys.per_account_max = 2).await;
    let person = world.person("ada@example.com").await;
    for _ in 0..2 {
        make(&world, &person.cookie, json!({ "name": "x" })).await.expect(201);
    }
    make(&world, &person.cookie, json!({ "name": "x" })).await.refused(409, "too_many_keys");
}
