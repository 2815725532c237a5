//! `attache connect` and `disconnect`: one approval for computer, agent and key, and the files of the tools.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use blackbox::client::{Client, Credential};
use blackbox::flow;
use blackbox::process::{Home, Process, Server};
use harness::npm;

/// `connect`, waiting for a person: it has shown its link and this code.
pub async fn connecting(home: &Home, arguments: &[&str]) -> (Process, String) {
    let process = home.start(&[&["connect"], arguments].concat());
    assert!(process.stdout.reach(9).await, "{}{}", process.stdout.text(), process.stderr.text());
    let code = process.stdout.text().lines().nth(6).unwrap().trim().to_owned();
    (process, code)
}

/// A page as a signed-in person sees it.
async fn page(server: &Server, person: &Credential, path: &str) -> String {
    let client = Client::new();
    let request = client.request(Method::GET, &format!("{}{path}", server.url), person);
    let response = client.try_send(request.header("sec-fetch-site", "same-origin")).await.unwrap();
    assert_eq!(response.status, 200, "{path}");
    String::from_utf8(response.body.to_vec()).unwrap()
}

/// The person presses Approve with these boxes ticked.
pub async fn approve(server: &Server, person: &Credential, code: &str, boxes: &[&str]) {
    let client = Client::new();
    let request = client.request(Method::POST, &format!("{}/device", server.url), person);
    let mut form = vec![("user_code", code), ("decision", "approve")];
    form.extend(boxes.iter().map(|name| (*name, "yes")));
    let body = serde_urlencoded::to_string(form).unwrap();
    let request = request.header("origin", &server.url).header("sec-fetch-site", "same-origin");
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
    assert_eq!(client.try_send(request).await.unwrap().status, 303);
}

fn json_file(home: &Home, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(home.dir.path().join(name)).unwrap()).unwrap()
}

/// The agent of a tool, as the profile has it.
fn agent(home: &Home, tool: &str) -> toml::Table {
    flow::profile(home)["tools"][tool].as_table().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_that_nothing_waited_for_is_collected_by_the_next_run() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = flow::session(&home, "ada@example.com");
    // With `--json`, the words for the person are on standard error.
    let user_code = |arguments: &[&str]| {
        let value: Value = serde_json::from_str(&home.run(arguments).stdout).unwrap();
        flow::text(&value, "user_code")
    };
    let code = user_code(&["connect", "claude-code", "--server", &server.url, "--no-wait", "--json"]);
    assert_eq!(user_code(&["connect", "claude-code", "--no-wait", "--json"]), code);
    approve(&server, &ada, &code, &["with_key"]).await;
    let connected = home.run(&["connect", "claude-code", "--json"]);
    let connected: Value = serde_json::from_str(&connected.stdout).unwrap();
    assert_eq!(
        (&connected["api_key"], &connected["event"]["state"]),
        (&json!(true), &json!("recorded")),
        "{connected}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_approval_connects_a_tool_and_a_second_run_asks_nothing() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = flow::session(&home, "ada@example.com");
    let settings = "{\n  // mine\n  \"model\": \"opus\"\n}\n";
    fs::create_dir(home.dir.path().join(".claude")).unwrap();
    fs::write(home.dir.path().join(".claude/settings.json"), settings).unwrap();

    let (mut connect, code) =
        connecting(&home, &["claude-code", "--server", &server.url, "--name", "ada-laptop", "--act-for-me"]).await;
    let response = page(&server, &ada, &format!("/device?user_code={code}")).await;
    for part in
        ["Claude Code asks to act for you", "ada-laptop", "No content", "name=\"may_read\"", "name=\"with_key\""]
    {
        assert!(response.contains(part), "{part} in {response}");
    }
    assert!(!home.dir.path().join(".claude.json").exists(), "nothing is written before the person agreed");
    approve(&server, &ada, &code, &["may_read", "with_key"]).await;
    assert_eq!(connect.exit().await.code(), Some(0), "{}{}", connect.stdout.text(), connect.stderr.text());
    let said = connect.stdout.text();
    for part in ["attached to the account of ada@example.com", "Claude Code acts for you", "it can use your memory"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let event = said.lines().find_map(|line| line.split_once("the first event arrived: ")).unwrap().1.to_owned();
    let event = event.strip_prefix(&server.url).unwrap();
    assert!(page(&server, &ada, event).await.contains("skill.installed"));
    let attached = page(&server, &ada, &format!("/device?user_code={code}")).await;
    assert!(attached.contains("Claude Code on it acts for you."), "{attached}");
    assert!(page(&server, &ada, "/account").await.contains("claude-code on ada-laptop"));

    let server_entry = &json_file(&home, ".claude.json")["mcpServers"]["attache"];
    assert_eq!(server_entry["args"], json!(["mcp", "--profile", "default"]));
    let written = fs::read_to_string(home.dir.path().join(".claude/settings.json")).unwrap();
    assert!(written.contains("// mine") && written.contains("hook claude-code --profile default"), "{written}");
    // The first key and the first agent stay.
    let (first, key) = (agent(&home, "claude-code"), flow::profile(&home)["api_key"].clone());
    let again = home.run(&["connect", "claude-code", "--json"]).json();
    assert_eq!((&again["email"], &again["api_key"]), (&json!("ada@example.com"), &json!(true)));
    assert!(again["files"].as_array().unwrap().iter().all(|file| file["state"] == "unchanged"), "{again}");
    assert_eq!(again["event"]["state"], "recorded");
    assert_eq!(again["agent"].as_str(), first["registration_id"].as_str());

    // The profile keeps the assertion of the agent, and no access token.
    assert!(first.get("access_token").is_none() && first.get("token_expires").is_none(), "{first:?}");

    // Another tool needs no approval; with `--act-for-me` the code only requests the tool's agent.
    let silent = home.run(&["connect", "cursor", "--json"]).json();
    assert_eq!((&silent["agent"], &silent["event"]["state"]), (&Value::Null, &json!("recorded")));
    let (mut connect, code) = connecting(&home, &["codex", "--act-for-me"]).await;
    let response = page(&server, &ada, &format!("/device?user_code={code}")).await;
    assert!(
        response.contains("attached to your account already") && response.contains("name=\"may_read\""),
        "{response}"
    );
    assert!(!response.contains("name=\"with_key\""));
    approve(&server, &ada, &code, &["may_read"]).await;
    assert_eq!(connect.exit().await.code(), Some(0), "{}{}", connect.stdout.text(), connect.stderr.text());
    assert!(connect.stdout.text().contains("/hooks"), "{}", connect.stdout.text());
    assert_eq!(flow::profile(&home)["api_key"], key);

    // Undone to the byte; the agent ends, the other one and the computer stay.
    let assertion = agent(&home, "claude-code")["identity_assertion"].as_str().unwrap().to_owned();
    let said = home.run(&["disconnect", "claude-code"]);
    assert!(said.said().contains("does not act for you any more"), "{said:?}");
    assert_eq!(fs::read_to_string(home.dir.path().join(".claude/settings.json")).unwrap(), settings);
    assert!(!home.dir.path().join(".claude.json").exists());
    flow::token_by_assertion(&server, &assertion).await.refused(400, "invalid_grant");
    let profile = flow::profile(&home);
    assert!(profile["tools"].get("claude-code").is_none() && profile["tools"].get("codex").is_some());
    home.run(&["disconnect", "claude-code"]).refused(4, &["not connected"]);
    home.run(&["usage"]).said();

    // With consent off, the command sends no event.
    home.run(&["consent", "set", "off"]).said();
    let silent = home.run(&["connect", "codex", "--json"]).json();
    assert_eq!(silent["event"], json!({ "state": "not_allowed", "event_id": null, "url": null }));
    // From a file that changed since, the command removes only the additions.
    let config = home.dir.path().join(".codex/config.toml");
    fs::write(&config, format!("model = \"gpt-5\"\n{}", fs::read_to_string(&config).unwrap())).unwrap();
    let undone = home.run(&["disconnect", "codex", "--keep-agent", "--json"]).json();
    assert_eq!((&undone["agent"], &undone["files"][0]["state"]), (&json!("kept"), &json!("edited")));
    assert_eq!(fs::read_to_string(&config).unwrap().trim(), "model = \"gpt-5\"");
    assert!(flow::profile(&home)["tools"].get("codex").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_and_a_key_without_consent_are_left_out_and_named() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = flow::session(&home, "ada@example.com");
    let (mut connect, code) = connecting(&home, &["cursor", "--server", &server.url, "--act-for-me"]).await;
    // The API shows no page that names agent and key.
    flow::device_approve(&server, &ada, &code).await.unwrap().expect(200);
    assert_eq!(connect.exit().await.code(), Some(0), "{}", connect.stderr.text());
    let said = connect.stdout.text();
    for part in ["✓ Cursor does not act for you", "no key for your memory", "the first event arrived"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(home.dir.path().join(".cursor/mcp.json").exists());
    assert!(agent(&home, "cursor").get("scope").is_none());

    // After a denial, no file is written.
    let (mut connect, code) = connecting(&home, &["gemini-cli"]).await;
    flow::person(&home, &server, "ada@example.com").device_deny(&code).await.unwrap();
    assert_ne!(connect.exit().await.code(), Some(0));
    assert!(connect.stderr.text().contains("denied"), "{}", connect.stderr.text());
    assert!(!home.dir.path().join(".gemini").exists());
}

#[test]
fn dry_run_and_print_write_nothing() {
    let home = Home::new();
    fs::create_dir(home.dir.path().join(".cursor")).unwrap();
    fs::write(home.dir.path().join(".cursor/mcp.json"), "{\n  \"mcpServers\": {}\n}\n").unwrap();
    let output = home.run(&["connect", "cursor", "--dry-run"]);
    for part in ["--- /dev/null", "+++ ", ".cursor/hooks.json", "+    \"attache\": {"] {
        assert!(output.said().contains(part), "{part} in {output:?}");
    }
    let printed = home.run(&["connect", "opencode", "--print", "--no-mcp"]);
    assert!(printed.said().contains("\"hook\",\"opencode\",\"--profile\",\"default\""), "{printed:?}");
    let printed = home.run(&["connect", "codex", "--print", "--scope", "project", "--json"]).json();
    assert!(printed[0]["path"].as_str().unwrap().ends_with("/.codex/config.toml"), "{printed}");
    assert!(printed[0]["text"].as_str().unwrap().starts_with("[mcp_servers.attache]\n"), "{printed}");
    assert_eq!(fs::read_to_string(home.dir.path().join(".cursor/mcp.json")).unwrap(), "{\n  \"mcpServers\": {}\n}\n");
    assert!(!home.dir.path().join(".cursor/hooks.json").exists() && !home.dir.path().join(".config/opencode").exists());
    home.run(&["connect", "vim"]).refused(2, &["claude-code, codex, cursor"]);
}

/// The plugin runs in Node, as in opencode. It passes each prompt once.
#[test]
fn the_plugin_of_opencode_passes_prompts_with_text_and_folder() {
    const CALLS: &str = "
        const { AttachePlugin } = await import(process.argv.at(-1));
        const plugin = await AttachePlugin({ directory: '/work/engine' });
        const event = (type, properties) => plugin.event({ event: { type, properties } });
        await event('message.updated', { info: { id: 'm1', role: 'user', sessionID: 's1' } });
        await event('message.updated', { info: { id: 'm2', role: 'assistant', sessionID: 's1', time: { created: 1 } } });
        await event('session.status', { sessionID: 's1' });
        await plugin['chat.message']({ sessionID: 's1' }, { message: { id: 'm1' }, parts: [{ type: 'text', text: 'Hello' }] });
        await event('session.created', { info: { id: 's1' } });
    ";
    if npm::packages().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (plugin, seen) = (folder.path().join("attache.mjs"), folder.path().join("seen"));
    let command = json!(["sh", "-c", "line=$(cat); echo \"$line\" >> \"$0\"", seen]).to_string();
    let text = include_str!("../../crates/commands/src/connect/opencode_plugin.js").replace("[\"attache\"]", &command);
    fs::write(&plugin, text).unwrap();
    let node = Command::new("node").args(["--input-type=module", "--eval", CALLS, "--"]).arg(&plugin).output().unwrap();
    assert!(node.status.success(), "{}", String::from_utf8_lossy(&node.stderr));
    // Node ends before the commands that it has started.
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut payloads: Vec<Value> = Vec::new();
    while payloads.len() < 2 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
        let lines = fs::read_to_string(&seen).unwrap_or_default();
        payloads = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    }
    payloads.sort_by_key(|payload| payload.get("event").is_some());
    let created = json!({ "type": "session.created", "properties": { "info": { "id": "s1" } } });
    let said = json!({ "message": { "id": "m1" }, "parts": [{ "type": "text", "text": "Hello" }] });
    let prompt =
        json!({ "hook": "chat.message", "input": { "sessionID": "s1" }, "output": said, "directory": "/work/engine" });
    assert_eq!(payloads, [prompt, json!({ "event": created, "directory": "/work/engine" })]);
}

/// Recording and memory need no credential of an account: the command requests, creates and stores none.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_connected_without_an_agent() {
    let home = Home::new();
    let server = home.serve().await;
    let ada = flow::session(&home, "ada@example.com");
    let (mut connect, code) = connecting(&home, &["claude-code", "--server", &server.url]).await;
    let response = page(&server, &ada, &format!("/device?user_code={code}")).await;
    assert!(!response.contains("act for you") && !response.contains("name=\"may_"), "{response}");
    approve(&server, &ada, &code, &["with_key"]).await;
    assert_eq!(connect.exit().await.code(), Some(0), "{}{}", connect.stdout.text(), connect.stderr.text());
    let said = connect.stdout.text();
    assert!(said.contains("it can use your memory") && said.contains("the first event arrived"), "{said}");
    assert!(!said.contains("act for you") && !said.contains("acts for you") && !said.contains("! "), "{said}");
    let profile = flow::profile(&home);
    assert!(profile.get("tools").is_none() && profile.get("agent").is_none(), "{profile}");
    let again = home.run(&["connect", "claude-code", "--json"]).json();
    assert_eq!((&again["agent"], &again["event"]["state"]), (&Value::Null, &json!("recorded")));
    assert!(home.run(&["disconnect", "claude-code"]).said().contains("has no agent"));
}

/// The author of a project chooses its links, and not which file of the user is replaced.
#[test]
fn a_project_whose_files_lead_outside_is_refused_and_nothing_is_written() {
    for (link, to) in [(".mcp.json", "profile"), (".claude", "elsewhere"), (".mcp.json", "absent")] {
        let home = Home::new();
        let project = home.dir.path().join("project");
        fs::create_dir_all(home.dir.path().join("elsewhere")).unwrap();
        fs::create_dir(&project).unwrap();
        fs::write(home.dir.path().join("profile"), "{}").unwrap();
        std::os::unix::fs::symlink(home.dir.path().join(to), project.join(link)).unwrap();
        for last in ["--dry-run", "--no-wait"] {
            let arguments = ["connect", "claude-code", "--scope", "project", "--url", "http://127.0.0.1:1", last];
            let output = home.command(&arguments).current_dir(&project).output().unwrap();
            let complaint = String::from_utf8(output.stderr).unwrap();
            assert!(complaint.contains("not a file of this project"), "{link} {last}: {complaint}");
        }
        assert_eq!(fs::read_to_string(home.dir.path().join("profile")).unwrap(), "{}");
        assert_eq!(fs::read_dir(home.dir.path().join("elsewhere")).unwrap().count(), 0);
        assert!(!home.dir.path().join("absent").exists());
    }
}
