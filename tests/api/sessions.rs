//! The browsers in which a person is signed in.

use serde_json::json;

use blackbox::browser::Browser;
use blackbox::world::World;
use harness::on_sqlite;

on_sqlite! {
    async fn a_person_sees_their_sessions_and_ends_them(world: World) {
        let ada = world.person("ada@example.com").await;
        let bob = world.person("bob@example.com").await;
        let browser = Browser::new(&world);
        browser.sign_in("ada@example.com").await;

        let list = async |credential| {
            let response = world.get("/api/v1/sessions", credential).await.expect(200);
            response["sessions"].as_array().unwrap().clone()
        };
        let here = browser.credential();
        let sessions = list(&here).await;
        assert_eq!(sessions.iter().map(|session| session["via"].as_str().unwrap()).collect::<Vec<_>>(), ["code", "operator"]);
        assert_eq!(sessions.iter().map(|session| session["current"].as_bool().unwrap()).collect::<Vec<_>>(), [true, false]);
        let mut members: Vec<_> = sessions[0].as_object().unwrap().keys().map(String::as_str).collect();
        members.sort_unstable();
        assert_eq!(members, ["address", "created_at", "current", "expires_at", "id", "user_agent", "via"]);
        // In the other browser, `current` is the other one.
        assert_eq!(list(&ada.cookie).await[1]["current"], json!(true));

        let path = |session: &serde_json::Value| format!("/api/v1/sessions/{}", session["id"].as_str().unwrap());
        let other = path(&sessions[1]);
        world.delete(&other, &bob.cookie).await.refused(404, "not_found");
        assert_eq!(world.delete(&other, &here).await.expect(200), json!({ "ok": true }));
        world.get("/api/v1/sessions", &ada.cookie).await.refused(401, "unauthorized");
        world.delete(&other, &here).await.refused(404, "not_found");
        world.delete("/api/v1/sessions/nonsense", &here).await.refused(404, "not_found");
        // The current session too.
        world.delete(&path(&sessions[0]), &here).await.expect(200);
        world.get("/api/v1/sessions", &here).await.refused(401, "unauthorized");
        assert_eq!(list(&bob.cookie).await.len(), 1);
    }

    async fn a_session_that_is_used_ends_ninety_days_after_the_sign_in(world: World) {
        let browser = Browser::new(&world);
        browser.sign_in("ada@example.com").await;
        let here = browser.credential();
        for _ in 0..17 {
            world.advance(std::time::Duration::from_hours(5 * 24));
            world.get("/api/v1/sessions", &here).await.expect(200);
        }
        world.advance(std::time::Duration::from_hours(5 * 24));
        world.get("/api/v1/sessions", &here).await.refused(401, "unauthorized");
        let again = Browser::new(&world);
        again.sign_in("ada@example.com").await;
        let here = again.credential();
        world.advance(std::time::Duration::from_hours(7 * 24));
        world.get("/api/v1/sessions", &here).await.refused(401, "unauthorized");
    }

    async fn the_use_of_a_session_that_an_operator_created_does_not_extend_it(world: World) {
        let ada = world.person("ada@example.com").await;
        let end = async || {
            let listed = world.get("/api/v1/sessions", &ada.cookie).await.expect(200);
            (listed["sessions"][0]["via"].clone(), listed["sessions"][0]["expires_at"].clone())
        };
        let before = end().await;
        assert_eq!(before.0, "operator");
        world.advance(std::time::Duration::from_hours(3));
        assert_eq!(end().await, before);
        assert_eq!(end().await, before, "a use is written before the next one");
    }

    async fn an_agent_sees_the_sessions_of_its_person_and_ends_none(world: World) {
        let ada = world.person("ada@example.com").await;
        let agent = world.agent_of(&ada).await;
        let response = world.get("/api/v1/sessions", &agent.token).await.expect(200);
        let sessions = response["sessions"].as_array().unwrap();
        assert_eq!((sessions.len(), &sessions[0]["current"]), (1, &json!(false)));
        let path = format!("/api/v1/sessions/{}", sessions[0]["id"].as_str().unwrap());
        world.delete(&path, &agent.token).await.refused(401, "unauthorized");
        world.get("/api/v1/sessions", &ada.cookie).await.expect(200);
    }
}
