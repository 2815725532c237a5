//! `attache session` and `attache costs`.

use serde_json::json;

use blackbox::process::Home;
use blackbox::{eventually, flow};
use harness::event::Chain;

use crate::account::adas;

const SESSION: &str = "019b76da-a800-7a67-8a14-94a3f41b0601";

#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_costs_are_tables_json_and_csv() {
    let home = Home::new();
    let server = home.serve().await;
    let machine = adas(&home, &server).await;
    assert!(home.run(&["session", "list"]).said().starts_with("no sessions"));
    assert!(home.run(&["costs"]).said().starts_with("no answers of models"));

    let mut chain = Chain::of_agent(&machine, "codex");
    let tool = json!({ "activity": "tool_finished", "skill": "Bash", "succeeded": false, "duration_ms": 1_500 });
    let answer =
        json!({ "activity": "completed", "model": "claude-sonnet-4-5", "input_tokens": 1_000_000, "output_tokens": 7 });
    for (event_type, payload) in [("skill.invoked", tool), ("llm.completed", answer)] {
        let event = chain.next_with(|event| {
            event["event_type"] = json!(event_type);
            event["lane"] = json!(event_type.split('.').next().unwrap());
            event["scope"]["session_uuid"] = json!(SESSION);
            event["scope"]["project_id"] = json!("=shop");
            event["payload"] = payload;
        });
        flow::event(&server, &machine, &event).await.receipt();
    }
    let list = eventually("the session is listed", async || {
        let list = home.run(&["session", "list", "--json"]).json();
        (list["sessions"][0]["events"] == 2).then_some(list)
    })
    .await;
    for whom in ["computer", "agent"] {
        let table = home.run(&["session", "list", "--as", whom, "--project", "=shop"]);
        for shown in ["=shop", "codex", "1000007"] {
            assert!(table.said().contains(shown), "{shown}: {table:?}");
        }
    }
    assert!(home.run(&["session", "list", "--agent", "cursor"]).said().starts_with("no sessions"));
    let id = list["sessions"][0]["id"].as_str().unwrap();
    let shown = home.run(&["session", "show", id]);
    for text in ["Ran Bash", "failed", "claude-sonnet-4-5", "2 events, 0 prompts, 1 tool calls, 1 failed"] {
        assert!(shown.said().contains(text), "{text}: {shown:?}");
    }
    let first = home.run(&["session", "show", id, "--limit", "1"]);
    assert!(first.said().contains("next page:") && !first.said().contains("Ran Bash"), "{first:?}");
    home.run(&["session", "show", SESSION]).refused(4, &["not_found"]);

    let costs = home.run(&["costs"]);
    for text in ["claude-sonnet-4-5", "$3.00", "list prices of"] {
        assert!(costs.said().contains(text), "{text}: {costs:?}");
    }
    assert!(home.run(&["costs", "--by", "project", "--as", "agent"]).said().contains("=shop"));
    let csv = home.run(&["costs", "--csv"]);
    assert!(csv.said().contains(r#",codex,"'=shop",claude-sonnet-4-5,1,1000000,7,3.000105"#), "{csv:?}");
}
