//! An external statistics service: its responses pass through, a missing response is 424, and no event is counted twice.

use std::time::Duration;

use bytes::Bytes;
use domain::trace::TraceContext;
use harness::upstream::{Reply, Script, Upstream};
use reqwest::Method;
use serde_json::json;

use blackbox::client::Credential;
use blackbox::eventually;
use blackbox::world::World;
use harness::event::Chain;

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_forwarded_byte_for_byte_with_its_scope() {
    let upstream = Upstream::start().await;
    let world = World::over(&upstream, |_| {}).await;
    let person = world.person("ada@example.com").await;
    let machine = world.attached_machine(&person).await;
    let event = Chain::new(&machine).next();
    let body = format!("  {event}\n");
    let receipt = world.event_bytes(&machine, body.clone()).await.receipt();
    let request = upstream.requests().into_iter().next().unwrap();
    assert_eq!(request.body, body.as_bytes());
    let header = |name: &str| request.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(header("idempotency-key").as_deref(), event["event_id"].as_str());
    assert_eq!(header("attache-machine"), Some(machine.uuid.clone()));
    assert_eq!(header("attache-identity"), Some(machine.user_cuid.clone()));
    assert_eq!(header("attache-account"), Some(person.account.to_string()));
    assert_eq!(world.event_bytes(&machine, body).await.receipt(), receipt);
    upstream.assert_no_surprises();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_the_upstream_continue_the_trace_of_the_client() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    let upstream = Upstream::start().await;
    let world = World::over(&upstream, |_| {}).await;
    let machine = world.machine().await;
    let event = Chain::new(&machine).next();
    let sent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let credential = Credential::from(&machine);
    let request = |method, path| world.request(method, path, &credential);
    let page = || request(Method::GET, "/api/v1/activity");
    world.send(request(Method::POST, "/api/v1/events").header("traceparent", &sent).json(&event)).await.receipt();
    world.send(page().header("traceparent", &sent)).await.expect(200);
    world.send(page().header("traceparent", "00-not-a-trace")).await.expect(200);
    let traces: Vec<TraceContext> = upstream
        .requests()
        .into_iter()
        .map(|request| request.headers["traceparent"].to_str().unwrap().parse().unwrap())
        .collect();
    let [event, page, other] = traces[..] else { panic!("{traces:?}") };
    for request in [event, page] {
        assert_eq!(request.trace_id().to_string(), TRACE);
        assert_ne!(request.to_string(), sent, "the server is the parent of its own request");
    }
    assert_ne!(other.trace_id().to_string(), TRACE, "an invalid value begins a new trace");
}

#[tokio::test(flavor = "multi_thread")]
async fn chain_conflicts_of_the_upstream_pass_through_unchanged() {
    let upstream = Upstream::start().await;
    let world = World::over(&upstream, |_| {}).await;
    let machine = world.machine().await;
    let odd = Bytes::from_static(b"{\"error\" :\t\"chain_conflict\", \"n\": 1.00e0}\n");
    let cases: [(u16, Option<&str>, Option<&str>, Bytes); 7] = [
        (409, Some("application/json"), None, odd.clone()),
        (409, Some("application/problem+json; charset=utf-8"), None, odd.clone()),
        (422, Some("text/html"), None, Bytes::from_static(b"<h1>No</h1><script>alert(1)</script>")),
        (422, None, None, Bytes::new()),
        (429, Some("application/json"), Some("17"), odd),
        (
            429,
            Some("application/octet-stream"),
            Some("Fri, 31 Dec 1999 23:59:59 GMT"),
            Bytes::from_static(&[0, 255, 1, 254]),
        ),
        (424, Some("text/plain"), Some("3"), Bytes::from_static(b"not now")),
    ];
    for (status, content_type, retry_after, body) in cases {
        let mut reply =
            Reply::new(status).body(body.clone()).header("Set-Cookie", "stolen=1").header("Server", "upstream");
        if let Some(content_type) = content_type {
            reply = reply.header("Content-Type", content_type);
        }
        if let Some(retry_after) = retry_after {
            reply = reply.header("Retry-After", retry_after);
        }
        let event = Chain::new(&machine).next();
        upstream.for_event(event["event_id"].as_str().unwrap(), Script::reply(reply));
        let answer = world.event(&machine, &event).await;
        assert_eq!((answer.status, &answer.body), (status, &body));
        assert_eq!(answer.header("content-type"), content_type);
        assert_eq!(answer.header("retry-after"), retry_after);
        assert_eq!((answer.header("set-cookie"), answer.header("server")), (None, None));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        // A 429 affects only its own sender, and nothing was counted: the event may be resent.
        world.event(&machine, &event).await.receipt();
    }
    upstream.assert_no_surprises();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_upstream_failure_is_424_and_retryable() {
    let upstream = Upstream::start().await;
    let world = World::over(&upstream, |settings| {
        settings.upstream.timeout = Duration::from_millis(400);
        settings.upstream.breaker.failures = 1000;
    })
    .await;
    let machine = world.machine().await;
    let mut chain = Chain::new(&machine);
    let late = Script::late(Duration::from_secs(2));
    let failures = [
        Script::reset(),
        Script::reset().having_stored(),
        Script::hang(),
        Script::hang().having_stored(),
        late,
        Script::broken(500),
        Script::broken(503).having_stored(),
        Script::garbage(),
        Script::reply(Reply::new(401)),
        Script::reply(Reply::new(403)),
        Script::reply(Reply::new(407)),
    ];
    for failure in failures {
        let described = format!("{failure:?}");
        let event = chain.next();
        upstream.for_event(event["event_id"].as_str().unwrap(), failure);
        let answer = world.event(&machine, &event).await;
        let refused = answer.refused(424, "temporarily_unavailable");
        assert_eq!(
            (&refused["retryable"], answer.header("retry-after").is_some()),
            (&json!(true), true),
            "{described}"
        );
        let receipt = world.event(&machine, &event).await.receipt();
        assert_eq!(world.event(&machine, &event).await.receipt(), receipt, "{described}");
        assert_eq!(upstream.taken()[event["event_id"].as_str().unwrap()].receipt_id, receipt, "{described}");
    }
    assert_eq!(upstream.taken().len(), 11);
    upstream.assert_no_surprises();
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_after_of_the_upstream_service_is_passed_to_the_sender() {
    let upstream = Upstream::start().await;
    let world = World::over(&upstream, |_| {}).await;
    let machine = world.machine().await;
    let asked = async |value: Option<&str>| -> u64 {
        let event = Chain::new(&machine).next();
        let reply = Reply::new(503);
        let reply = match value {
            Some(value) => reply.header("Retry-After", value),
            None => reply,
        };
        upstream.for_event(event["event_id"].as_str().unwrap(), Script::reply(reply));
        let answer = world.event(&machine, &event).await;
        answer.refused(424, "temporarily_unavailable");
        answer.header("retry-after").unwrap().parse().unwrap()
    };
    let later = |seconds| (world.clock().now() + chrono::TimeDelta::seconds(seconds)).to_rfc2822();
    assert_eq!(asked(Some("30")).await, 30);
    assert!((550..=600).contains(&asked(Some(&later(600))).await));
    assert_eq!(asked(Some("99999999")).await, 3600);
    for value in [None, Some("0"), Some("soon"), Some(&*later(-600))] {
        assert_eq!(asked(value).await, 1, "{value:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_refused_by_the_upstream_is_held() {
    let upstream = Upstream::start().await;
    let world = World::over(&upstream, |_| {}).await;
    let machine = world.machine().await;
    for status in [400, 404, 410, 413] {
        let event = Chain::new(&machine).next();
        upstream.for_event(event["event_id"].as_str().unwrap(), Script::reply(Reply::new(status).body("too odd")));
        let warning = world.event(&machine, &event).await.held("upstream_refused");
        assert!(warning.contains(&status.to_string()), "{warning}");
        // A resend is checked again and is forwarded.
        world.event(&machine, &event).await.receipt();
    }
    upstream.always(Script::reply(Reply::json(200, &json!({ "events": [] }))));
    assert_eq!(world.activity(&machine, "").await.expect(200)["unclassified"], json!([]));
}

/// A server with a circuit breaker that opens for a second after `failures` failures.
async fn world_with_breaker(upstream: &Upstream, failures: u32) -> World {
    World::over(upstream, |settings| {
        settings.upstream.breaker.failures = failures;
        settings.upstream.breaker.open = Duration::from_secs(1);
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_circuit_breaker_opens_and_closes_again() {
    let upstream = Upstream::start().await;
    let world = world_with_breaker(&upstream, 3).await;
    let machine = world.machine().await;
    let event = Chain::new(&machine).next();
    let ready = async || {
        let response = reqwest::get(format!("http://{}/readyz", world.server.admin_address)).await.unwrap();
        (response.status().as_u16(), response.json::<serde_json::Value>().await.unwrap()["upstream"].clone())
    };
    upstream.go_down().await;
    for _ in 0..4 {
        world.event(&machine, &event).await.refused(424, "temporarily_unavailable");
    }
    assert_eq!(ready().await, (200, json!("degraded")), "degraded is not unready");
    upstream.come_back().await;
    world.event(&machine, &event).await.refused(424, "temporarily_unavailable");
    assert!(upstream.requests().is_empty(), "the breaker is open");
    eventually("the service is tried again", async || {
        (world.event(&machine, &event).await.status == 202).then_some(())
    })
    .await;
    assert_eq!(ready().await, (200, json!("ok")));
    upstream.assert_no_surprises();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_upstream_is_degraded_only_while_its_circuit_breaker_is_open() {
    let upstream = Upstream::start().await;
    let world = world_with_breaker(&upstream, 1).await;
    let machine = world.machine().await;
    let ready = async || {
        let response = reqwest::get(format!("http://{}/readyz", world.server.admin_address)).await.unwrap();
        assert_eq!(response.status(), 200, "degraded is not unready");
        response.json::<serde_json::Value>().await.unwrap()
    };
    upstream.always(Script::reply(Reply::new(503)));
    world.event(&machine, &Chain::new(&machine).next()).await.refused(424, "temporarily_unavailable");
    let body = ready().await;
    assert_eq!((&body["upstream"], &body["degraded"][0]["part"]), (&json!("degraded"), &json!("upstream")), "{body}");
    assert!(body["degraded"][0]["reason"].as_str().unwrap().contains("requests are refused"), "{body}");
    let body = eventually("the failure is out of date", async || {
        let body = ready().await;
        (body["upstream"] == "ok").then_some(body)
    })
    .await;
    assert_eq!(body["degraded"], json!([]), "{body}");
    upstream.assert_no_surprises();
}

#[tokio::test(flavor = "multi_thread")]
async fn upstream_responses_of_reads_pass_through_unchanged() {
    let upstream = Upstream::start().await;
    let world = World::over(&upstream, |_| {}).await;
    let machine = world.machine().await;
    let held = json!({ "n": 1 });
    world.event(&machine, &held).await.held("malformed_envelope");

    let page = "{ \"events\": [], \"total\": 1e400 }";
    upstream.next(Script::reply(Reply::new(200).header("Content-Type", "application/json").body(page)));
    let answer = world.activity(&machine, "?limit=7&since=x").await;
    let text = std::str::from_utf8(&answer.body).unwrap();
    assert!(text.starts_with("{ \"events\": [], \"total\": 1e400 ,\"unclassified\":[{"), "{text}");
    assert!(text.ends_with("\"unclassified_truncated\":false}"), "{text}");
    let request = upstream.requests().pop().unwrap();
    assert_eq!(request.target, "/v1/activity?limit=7&since=x");

    // Not the first page, not an object, not a success: unchanged.
    for (query, status, body) in [
        ("?cursor=c", 200, "{}"),
        ("", 200, "[1]"),
        ("", 200, "<p>hello</p>"),
        ("", 503, "{}"),
        ("", 404, "gone"),
        ("", 500, ""),
    ] {
        upstream.next(Script::reply(Reply::new(status).header("Content-Type", "text/html; charset=x").body(body)));
        let answer = world.activity(&machine, query).await;
        assert_eq!((answer.status, &answer.body[..]), (status, body.as_bytes()), "{query}");
        assert_eq!(answer.header("content-type"), Some("text/html; charset=x"));
    }
    for (status, body) in [(200, "a proof"), (404, "{}"), (502, "")] {
        upstream.next(Script::reply(Reply::new(status).header("Content-Type", "text/x-proof").body(body)));
        let answer = world.proof(&machine, "019b76da-a800-7a67-8a14-94a3f41b0634").await;
        assert_eq!(
            (answer.status, &answer.body[..], answer.header("content-type")),
            (status, body.as_bytes(), Some("text/x-proof"))
        );
    }
    upstream.go_down().await;
    world.activity(&machine, "").await.refused(424, "temporarily_unavailable");
    world.proof(&machine, "019b76da-a800-7a67-8a14-94a3f41b0634").await.refused(424, "temporarily_unavailable");
    upstream.assert_no_surprises();
}
