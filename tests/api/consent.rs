//! Consent (`docs/protocol/consent.md` and `docs/decisions/0014-consent.md` and `docs/decisions/0015-reports-of-consent.md`).

use std::path::Path;
use std::time::Duration;

use harness::upstream::{Reply, Script, Upstream};
use serde_json::{Value, json};

use blackbox::browser::Browser;
use blackbox::client::Credential;
use blackbox::eventually;
use blackbox::world::World;
use harness::event::{Chain, Machine};
use harness::{on_each_database, on_sqlite};

const CONSENT: &str = "/api/v1/consent";
const PAUSE: &str = "/api/v1/consent/pause";

/// The level in force of a computer, paused or not.
async fn level_of(world: &World, machine: &Machine) -> String {
    let body = world.get(CONSENT, &Credential::from(machine)).await.expect(200);
    body["level"].as_str().unwrap().to_owned()
}

async fn level(world: &World, credential: impl Into<Credential>, query: &str) -> String {
    let body = world.get(&format!("{CONSENT}{query}"), &credential.into()).await.expect(200);
    assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
    body["level"].as_str().unwrap().to_owned()
}

async fn set(world: &World, credential: impl Into<Credential>, body: Value) -> u64 {
    let response = world.post(CONSENT, &credential.into(), &body).await.expect(200);
    assert_eq!(response["level"], body["level"]);
    response["written"].as_u64().unwrap()
}

on_sqlite! {
    async fn the_most_specific_consent_level_applies_and_the_default_is_only_reported(world: World) {
        let person = world.person("ada@example.com").await;
        let machine = world.attached_machine(&person).await;
        let uuid = &machine.uuid;
        assert_eq!(level(&world, &machine, "").await, "metadata-only");
        // No level is set, so no level is enforced.
        world.event(&machine, &Chain::new(&machine).next()).await.receipt();
        assert_eq!(set(&world, person.cookie.clone(), json!({ "level": "full" })).await, 1);
        assert_eq!(set(&world, person.cookie.clone(), json!({ "level": "full" })).await, 0);
        assert_eq!(level(&world, &machine, "?lane=rsi").await, "full");
        assert_eq!(set(&world, person.cookie.clone(), json!({ "level": "off", "lane": "llm" })).await, 1);
        assert_eq!(level(&world, &machine, "?lane=llm").await, "off");
        assert_eq!(set(&world, person.cookie.clone(), json!({ "level": "metadata-only", "machine_uuid": uuid })).await, 1);
        assert_eq!(level(&world, &machine, "?lane=llm").await, "metadata-only");
        assert_eq!(set(&world, person.cookie.clone(), json!({ "level": "full", "machine_uuid": uuid, "lane": "llm", "reason": "it writes the book" })).await, 1);
        assert_eq!(level(&world, &machine, "?lane=llm").await, "full");
        assert_eq!(level(&world, &machine, &format!("?machine_uuid={uuid}")).await, "metadata-only");
        let agent = world.agent_of(&person).await;
        assert_eq!(level(&world, agent.token.clone(), &format!("?machine_uuid={uuid}&lane=llm")).await, "full");

        let levels = world.get(CONSENT, &person.cookie).await.expect(200)["levels"].clone();
        let record = |machine: Value, lane: Value, level: &str| {
            json!({ "user_cuid": null, "machine_uuid": machine, "lane": lane, "level": level, "set_by": "person" })
        };
        let mut bare = levels.as_array().unwrap().clone();
        for entry in &mut bare {
            assert_eq!(entry["user_cuid"], json!(machine.user_cuid));
            entry["user_cuid"] = Value::Null;
        }
        assert_eq!(bare, [
            record(Value::Null, Value::Null, "full"),
            record(Value::Null, json!("llm"), "off"),
            record(json!(uuid), Value::Null, "metadata-only"),
            record(json!(uuid), json!("llm"), "full"),
        ]);
    }

    async fn a_computer_sets_its_own_consent_level_and_no_other(world: World) {
        let machine = world.machine().await;
        let sibling = world.machine_of(&machine.user_cuid).await;
        assert_eq!(set(&world, &machine, json!({ "level": "off" })).await, 1);
        assert_eq!(level(&world, &machine, "").await, "off");
        assert_eq!(level(&world, &sibling, "").await, "metadata-only");
        assert_eq!(set(&world, &machine, json!({ "level": "full", "machine_uuid": machine.uuid, "lane": "memory" })).await, 1);
        assert_eq!(level(&world, &machine, "").await, "full");
        let other = json!({ "level": "full", "machine_uuid": sibling.uuid });
        world.post(CONSENT, &Credential::from(&machine), &other).await.refused(400, "machine_uuid_mismatch");
        world.get(&format!("{CONSENT}?machine_uuid={}", sibling.uuid), &Credential::from(&machine)).await.refused(400, "machine_uuid_mismatch");
    }

    async fn a_computer_may_lower_its_consent_level_and_never_raise_it(world: World) {
        let person = world.person("ada@example.com").await;
        let machine = world.attached_machine(&person).await;
        let uuid = &machine.uuid;
        let by_computer = async |level: &str, lane: &str| {
            let body = json!({ "level": level, "lane": lane });
            world.post(CONSENT, &Credential::from(&machine), &body).await.expect(200)
        };
        set(&world, person.cookie.clone(), json!({ "level": "off" })).await;
        assert_eq!(by_computer("full", "memory").await, json!({ "level": "off", "written": 1 }));
        let agent = world.agent_of(&person).await;
        for (credential, query) in [
            (Credential::from(&machine), String::new()),
            (person.cookie.clone(), format!("?machine_uuid={uuid}")),
            (agent.token.clone(), format!("?machine_uuid={uuid}")),
        ] {
            assert_eq!(level(&world, credential, &query).await, "off");
        }
        let mut chain = Chain::new(&machine);
        let canary = "canary-51ab09";
        let event = chain.peek_with(|event| event["payload"]["content"] = json!(canary));
        world.event(&machine, &event).await.held("consent_exceeded");
        assert!(!contains(world.dir.path(), canary.as_bytes()), "the content is in a file");

        // A level that an agent sets counts as the person's; a lower level of the computer stays in force.
        set(&world, agent.token.clone(), json!({ "level": "full", "lane": "memory" })).await;
        assert_eq!(level(&world, &machine, "").await, "full");
        world.event(&machine, &chain.next()).await.receipt();
        assert_eq!(by_computer("metadata-only", "memory").await, json!({ "level": "metadata-only", "written": 1 }));
        let raised = json!({ "level": "full", "machine_uuid": uuid, "lane": "memory" });
        let response = world.post(CONSENT, &person.cookie, &raised).await.expect(200);
        assert_eq!(response, json!({ "level": "metadata-only", "written": 1 }));

        let levels = world.get(CONSENT, &person.cookie).await.expect(200)["levels"].clone();
        let authors: Vec<_> = levels.as_array().unwrap().iter().map(|record| (record["level"].as_str().unwrap(), record["set_by"].as_str().unwrap())).collect();
        assert_eq!(authors, [("off", "person"), ("full", "agent"), ("full", "person"), ("metadata-only", "computer")]);
        let browser = Browser::of(&world, &person);
        let response = browser.get("/account/consent").await;
        let page = response.page(200);
        assert_eq!(page.matches("Computer: No content").count(), 1, "{page}");
        // Saving the displayed form changes neither the person's level nor the computer's.
        let base = format!("all.all=off all.memory=full {uuid}.memory=full");
        let names = ["all", "memory", "llm"].map(|lane| format!("{uuid}.{lane}"));
        let shown = [("base", base.as_str()), (names[0].as_str(), ""), (names[1].as_str(), "full"), (names[2].as_str(), "")];
        browser.submit("/account/consent", &shown).await.goes_to("/account/consent");
        assert!(browser.get("/account/consent").await.page(200).contains("No levels were changed"));
        // The event contains the actor and the change.
        let events = world.activity(person.cookie.clone(), "?lane=security").await.expect(200)["events"].clone();
        assert_eq!(events.as_array().unwrap().len(), 5);
    }

    async fn no_sender_impersonates_the_consent_chain(world: World) {
        let person = world.person("ada@example.com").await;
        let machine = world.attached_machine(&person).await;
        let report = |agent: &'static str| {
            Chain::new(&machine).next_with(move |event| {
                event["event_type"] = json!("consent.changed");
                event["lane"] = json!("security");
                event["scope"]["agent_id"] = json!(agent);
                event["payload"] = json!({ "level": "full" });
            })
        };
        for credential in [Credential::from(&machine), person.cookie.clone()] {
            world.event(credential, &report("svc-control-plane")).await.held("identity_mismatch");
        }
        world.event(&machine, &report("svc-cli")).await.receipt();
        let events = world.activity(person.cookie.clone(), "?lane=security").await.expect(200)["events"].clone();
        let agents: Vec<_> = events.as_array().unwrap().iter().map(|event| event["agent_id"].clone()).collect();
        assert_eq!(agents, ["svc-cli"]);
    }

    async fn every_fault_of_consent_has_its_error_code(world: World) {
        let ada = world.person("ada@example.com").await;
        let bob = world.person("bob@example.com").await;
        let machine = world.attached_machine(&ada).await;
        for (credential, own) in [(ada.cookie.clone(), true), (Credential::from(&machine), true), (bob.cookie.clone(), false)] {
            for body in [json!({}), json!([]), json!("off"), json!({ "level": "most" }), json!({ "level": "off", "more": 1 }),
                json!({ "level": "off", "machine_uuid": "x" }), json!({ "level": "off", "reason": "x".repeat(257) })] {
                world.post(CONSENT, &credential, &body).await.refused(400, "invalid_request");
            }
            world.post(CONSENT, &credential, &json!({ "level": "off", "lane": "dream" })).await.refused(400, "lane_not_in_enum");
            world.get(&format!("{CONSENT}?lane=dream"), &credential).await.refused(400, "lane_not_in_enum");
            world.get(&format!("{CONSENT}?machine_uuid=x"), &credential).await.refused(400, "invalid_request");
            if !own {
                world.post(CONSENT, &credential, &json!({ "level": "off" })).await.refused(409, "no_linked_cuid");
                world.get(CONSENT, &credential).await.refused(409, "no_linked_cuid");
                world.post(CONSENT, &credential, &json!({ "level": "off", "machine_uuid": machine.uuid })).await.refused(403, "machine_not_owned");
                world.get(&format!("{CONSENT}?machine_uuid={}", machine.uuid), &credential).await.refused(403, "machine_not_owned");
            }
        }
        assert_eq!(level(&world, &machine, "").await, "metadata-only");
    }

    async fn a_consent_baseline_is_written_for_every_linked_identity(world: World) {
        let person = world.person("ada@example.com").await;
        let machines = [world.attached_machine(&person).await, world.attached_machine(&person).await];
        assert_eq!(set(&world, person.cookie.clone(), json!({ "level": "off" })).await, 2);
        for machine in &machines {
            assert_eq!(level(&world, machine, "").await, "off");
        }
        assert_eq!(world.get(CONSENT, &person.cookie).await.expect(200)["levels"].as_array().unwrap().len(), 2);
    }

    async fn the_saved_consent_form_matches_the_effective_levels(world: World) {
        let person = world.person("ada@example.com").await;
        let Credential::Cookie(pair) = &person.cookie else { unreachable!() };
        let browser = Browser::new(&world);
        browser.put("attache.session_token", pair.split_once('=').unwrap().1);
        let machine = world.attached_machine(&person).await;
        // A lane that is stricter for all computers stays so when one computer's other lanes change.
        set(&world, browser.credential(), json!({ "level": "full" })).await;
        set(&world, browser.credential(), json!({ "level": "off", "lane": "llm" })).await;
        let save = async |form: &[(&str, &str)], said: &str| {
            browser.submit("/account/consent", form).await.goes_to("/account/consent");
            let page = browser.get("/account/consent").await;
            assert!(page.page(200).contains(said), "{}", page.page(200));
        };
        let base = ("base", "all.all=full all.llm=off");
        let fields = ["all", "memory", "llm", "skill", "security", "squad", "rsi"].map(|lane| format!("{}.{lane}", machine.uuid));
        let row = |all| [&[base, (fields[0].as_str(), all)], &fields[1..].iter().map(|field| (field.as_str(), "")).collect::<Vec<_>>()[..]].concat();
        save(&row(""), "No levels were changed").await;
        save(&row("metadata-only"), "Saved: 2 levels changed").await;
        assert_eq!(level(&world, &machine, "?lane=llm").await, "off");
        assert_eq!(level(&world, &machine, "?lane=memory").await, "metadata-only");

        // A computer that is attached later has the levels for all computers, and follows them.
        let second = world.attached_machine(&person).await;
        assert_eq!((level(&world, &second, "").await, level(&world, &second, "?lane=llm").await), ("full".into(), "off".into()));
        assert_eq!(browser.get("/account/consent").await.page(200).matches(">Differs<").count(), 0);
        save(&[base, ("all.all", "metadata-only"), ("all.memory", ""), ("all.llm", "off")], "Saved: 1 level changed").await;
        assert_eq!((level(&world, &second, "").await, level(&world, &second, "?lane=llm").await), ("metadata-only".into(), "off".into()));
        let base = ("base", "all.all=metadata-only all.llm=off");
        save(&[base, ("all.all", "metadata-only"), ("all.llm", "off")], "No levels were changed").await;
        // A field without a choice is sent empty.
        let names = ["all", "rsi"].map(|lane| format!("{}.{lane}", second.uuid));
        save(&[base, (names[0].as_str(), ""), (names[1].as_str(), "")], "No levels were changed").await;
    }

    async fn a_level_for_all_computers_binds_one_that_is_attached_later_from_its_first_event_on(world: World) {
        let person = world.person("ada@example.com").await;
        let first = world.attached_machine(&person).await;
        set(&world, person.cookie.clone(), json!({ "level": "off" })).await;
        set(&world, person.cookie.clone(), json!({ "level": "metadata-only", "lane": "llm" })).await;
        // Every road that links an identity: a person's approval, an agent's, and an operator's command.
        let [by_person, by_agent, by_operator] = [world.machine().await, world.machine().await, world.machine().await];
        let agent = world.agent_of(&person).await;
        for (machine, credential) in [(&by_person, &person.cookie), (&by_agent, &agent.token)] {
            let code = world.device_code(machine).await.expect(200);
            world.device_approve(credential, code["user_code"].as_str().unwrap()).await.expect(200);
        }
        let (store, now) = (&world.server.app.store, world.clock().now());
        store.machine_attach(by_operator.uuid.parse().unwrap(), &person.account, now, world.rng()).await.unwrap().unwrap();
        for machine in [&by_person, &by_agent, &by_operator] {
            let canary = format!("canary-{}", machine.uuid);
            let mut chain = Chain::new(machine);
            let event = chain.peek_with(|event| event["payload"]["content"] = json!(canary));
            world.event(machine, &event).await.held("consent_exceeded");
            let prompt = chain.next_with(|event| {
                event["event_type"] = json!("llm.completed");
                event["lane"] = json!("llm");
                event["payload"] = json!({ "model": "m", "prompt": canary });
            });
            world.event(machine, &prompt).await.held("consent_exceeded");
            assert!(!contains(world.dir.path(), canary.as_bytes()), "the content is in a file");
            assert_eq!((level(&world, machine, "").await, level(&world, machine, "?lane=llm").await), ("off".into(), "metadata-only".into()));
            // It may record less than all computers, and not more.
            let own = world.post(CONSENT, &Credential::from(machine), &json!({ "level": "full" })).await.expect(200);
            assert_eq!(own["level"], "off");
            assert_eq!(level(&world, machine, "").await, "off");
            world.post(CONSENT, &Credential::from(machine), &json!({ "level": "off", "lane": "llm" })).await.expect(200);
            assert_eq!(level(&world, machine, "?lane=llm").await, "off");
        }
        let page = Browser::of(&world, &person).get("/account/consent").await;
        assert!(!page.page(200).contains(">Differs<") && page.page(200).contains("follows all computers"), "{page:?}");
        // Each inherited level is an event with a proof; the author of the event is the party that set the level.
        let inherited = eventually("the reports are recorded", async || {
            let events = world.activity(person.cookie.clone(), "?lane=security&limit=100").await.expect(200)["events"].clone();
            let reports = events.as_array().unwrap().iter().filter(|event| event["event_type"] == "consent.changed").count();
            (reports == 2 + 3 * 2 + 3 * 2).then_some(events)
        })
        .await;
        world.included(person.cookie.clone(), inherited[0]["event_id"].as_str().unwrap()).await;
        world.event(&first, &Chain::new(&first).next()).await.held("consent_exceeded");
    }

    async fn an_approval_writes_the_level_that_it_names(world: World) {
        let person = world.person("ada@example.com").await;
        let approve = async |machine: &Machine, credential: &Credential, consent: Option<&str>| {
            let code = world.device_code(machine).await.expect(200);
            let mut body = json!({ "user_code": code["user_code"] });
            if let Some(consent) = consent {
                body["consent"] = json!(consent);
            }
            world.post("/api/v1/device/approve", credential, &body).await
        };
        let full = |machine: &Machine| Chain::new(machine).next();
        let levels = async || {
            let records = world.get(CONSENT, &person.cookie).await.expect(200)["levels"].clone();
            let of = |record: &Value| (record["machine_uuid"].is_null(), record["level"].as_str().unwrap().to_owned(), record["set_by"].as_str().unwrap().to_owned());
            records.as_array().unwrap().iter().map(of).collect::<Vec<_>>()
        };
        let record = |is_baseline: bool, level: &str, set_by: &str| (is_baseline, level.to_owned(), set_by.to_owned());
        // Without the member no level is written, and no level is enforced.
        let unbound = world.machine().await;
        approve(&unbound, &person.cookie, None).await.expect(200);
        assert_eq!(levels().await, []);
        world.event(&unbound, &full(&unbound)).await.receipt();
        approve(&world.machine().await, &person.cookie, Some("most")).await.refused(400, "invalid_request");

        // The first choice applies to all computers, including computers that were attached before.
        let first = world.machine().await;
        approve(&first, &person.cookie, Some("metadata-only")).await.expect(200);
        assert_eq!(levels().await, [record(true, "metadata-only", "person"), record(true, "metadata-only", "person")]);
        for machine in [&first, &unbound] {
            world.event(machine, &full(machine)).await.held("consent_exceeded");
            let own = world.post(CONSENT, &Credential::from(machine), &json!({ "level": "full" })).await.expect(200);
            assert_eq!(own["level"], "metadata-only", "a computer raised its level");
        }
        // The same choice writes no level; another choice is an exception of its computer, with its author.
        let second = world.machine().await;
        approve(&second, &person.cookie, Some("metadata-only")).await.expect(200);
        assert_eq!(levels().await.iter().filter(|(is_baseline, ..)| !is_baseline).count(), 2, "only the computers' own");
        let third = world.machine().await;
        let agent = world.agent_of(&person).await;
        approve(&third, &agent.token, Some("off")).await.expect(200);
        assert!(levels().await.contains(&record(false, "off", "agent")));
        assert_eq!((level(&world, &third, "").await, level(&world, &second, "").await), ("off".into(), "metadata-only".into()));
    }

    async fn recording_is_paused_for_a_time_and_continues_by_itself_with_its_levels(world: World) {
        let person = world.person("ada@example.com").await;
        let machine = world.attached_machine(&person).await;
        set(&world, person.cookie.clone(), json!({ "level": "full" })).await;
        let records = async || world.get(CONSENT, &person.cookie).await.expect(200)["levels"].clone();
        let rows = records().await;
        let mut chain = Chain::new(&machine);
        world.event(&machine, &chain.next()).await.receipt();

        let paused = world.post(PAUSE, &person.cookie, &json!({ "seconds": 3600 })).await.expect(200);
        let until = &paused["paused_until"];
        let later = world.attached_machine(&person).await;
        for machine in [&machine, &later] {
            let own = world.get(CONSENT, &Credential::from(machine)).await.expect(200);
            assert_eq!(own, json!({ "level": "off", "paused_until": until }));
            let canary = format!("canary-{}", machine.uuid);
            let mut chain = Chain::new(machine);
            let event = chain.peek_with(|event| event["payload"]["content"] = json!(canary));
            world.event(machine, &event).await.held("consent_exceeded");
            world.event(person.cookie.clone(), &event).await.held("consent_exceeded");
            let unknown = chain.next_with(|event| {
                event["event_type"] = json!("memory.dreamt");
                event["payload"]["content"] = json!(canary);
            });
            world.event(machine, &unknown).await.held("unknown_event_type");
            assert!(!contains(world.dir.path(), canary.as_bytes()), "the content is in a file");
        }
        // A level that is set during the pause is recorded, and applies after it.
        let response = world.post(CONSENT, &person.cookie, &json!({ "level": "full", "machine_uuid": later.uuid })).await.expect(200);
        assert_eq!(response, json!({ "level": "off", "written": 1 }));
        let all = world.get(CONSENT, &person.cookie).await.expect(200);
        assert_eq!(&all["paused_until"], until);

        world.advance(Duration::from_secs(3601));
        assert_eq!(world.get(CONSENT, &Credential::from(&machine)).await.expect(200), json!({ "level": "full" }));
        world.event(&machine, &chain.next()).await.receipt();
        let after = records().await;
        assert_eq!(after.as_array().unwrap().len(), rows.as_array().unwrap().len() + 2, "the level of the later computer, and its exception");

        // A pause that is ended early is reported twice, a pause that expires once.
        world.post(PAUSE, &person.cookie, &json!({ "seconds": 60, "machine_uuid": machine.uuid })).await.expect(200);
        assert_eq!(level_of(&world, &machine).await, "off");
        assert_eq!(level_of(&world, &later).await, "full");
        let ended = world.delete(&format!("{PAUSE}?machine_uuid={}", machine.uuid), &person.cookie).await.expect(200);
        assert_eq!(ended, json!({ "paused_until": null }));
        assert_eq!(level_of(&world, &machine).await, "full");
        let reports = eventually("the reports are recorded", async || {
            let events = world.activity(person.cookie.clone(), "?lane=security&limit=100").await.expect(200)["events"].clone();
            // The level, the pause on two identities, the inherited level, the exception, and the pause of one computer twice.
            (events.as_array().unwrap().len() == 1 + 2 + 1 + 1 + 2).then_some(events)
        })
        .await;
        world.included(person.cookie.clone(), reports[0]["event_id"].as_str().unwrap()).await;
    }

    async fn a_computer_or_an_agent_may_pause_and_never_end_the_pause_of_another(world: World) {
        let (ada, bob) = (world.person("ada@example.com").await, world.person("bob@example.com").await);
        let (machine, other) = (world.attached_machine(&ada).await, world.attached_machine(&ada).await);
        let agent = world.agent_of(&ada).await;
        let own = Credential::from(&machine);
        let of_machine = format!("{PAUSE}?machine_uuid={}", machine.uuid);
        let pause = async |credential: &Credential, seconds: u64, named: bool| {
            let mut body = json!({ "seconds": seconds });
            if named {
                body["machine_uuid"] = json!(machine.uuid);
            }
            world.post(PAUSE, credential, &body).await.expect(200)["paused_until"].as_str().unwrap().to_owned()
        };
        // Its own pause.
        pause(&own, 600, false).await;
        assert_eq!((level_of(&world, &machine).await, level_of(&world, &other).await), ("off".into(), "metadata-only".into()));
        world.delete(&of_machine, &agent.token).await.refused(403, "session_required");
        world.delete(PAUSE, &own).await.expect(200);
        assert_eq!(level_of(&world, &machine).await, "metadata-only");
        world.delete(PAUSE, &own).await.expect(200);

        // A person's pause is lengthened at most, and ends by the person.
        let mut until = pause(&ada.cookie, 600, true).await;
        for (credential, seconds) in [(&own, 1200), (&agent.token, 1800)] {
            assert_eq!(pause(credential, 60, true).await, until);
            let longer = pause(credential, seconds, true).await;
            assert!(longer > until);
            until = longer;
            world.delete(&of_machine, credential).await.refused(403, "session_required");
        }
        assert!(pause(&ada.cookie, 60, true).await < until);
        world.delete(&of_machine, &ada.cookie).await.expect(200);

        // An agent's pause of all computers.
        pause(&agent.token, 600, false).await;
        assert_eq!((level_of(&world, &machine).await, level_of(&world, &other).await), ("off".into(), "off".into()));
        world.delete(PAUSE, &own).await.expect(200);
        assert_eq!(level_of(&world, &machine).await, "off", "a computer ended the pause of its account");
        world.delete(PAUSE, &agent.token).await.refused(403, "session_required");
        world.delete(PAUSE, &ada.cookie).await.expect(200);
        assert_eq!(level_of(&world, &machine).await, "metadata-only");

        for body in [json!({}), json!({ "seconds": 0 }), json!({ "seconds": -1 }), json!({ "seconds": 8 * 86400 }), json!({ "seconds": 1, "more": 1 })] {
            world.post(PAUSE, &ada.cookie, &body).await.refused(400, "invalid_request");
        }
        let foreign = json!({ "seconds": 1, "machine_uuid": other.uuid });
        world.post(PAUSE, &own, &foreign).await.refused(400, "machine_uuid_mismatch");
        world.post(PAUSE, &bob.cookie, &foreign).await.refused(403, "machine_not_owned");
        world.post(PAUSE, &bob.cookie, &json!({ "seconds": 1 })).await.refused(409, "no_linked_cuid");
        world.delete(&of_machine, &bob.cookie).await.refused(403, "machine_not_owned");
    }
}

on_each_database! {
    async fn every_consent_change_is_an_event_with_a_proof(world: World) {
        let person = world.person("ada@example.com").await;
        let machine = world.attached_machine(&person).await;
        set(&world, person.cookie.clone(), json!({ "level": "off", "lane": "llm" })).await;
        set(&world, person.cookie.clone(), json!({ "level": "full", "lane": "llm" })).await;
        let events = world.activity(person.cookie.clone(), "?lane=security").await.expect(200)["events"].clone();
        let events = events.as_array().unwrap();
        assert_eq!(events.len(), 2);
        for (event, seq) in events.iter().zip([1, 0]) {
            assert_eq!((&event["event_type"], &event["agent_id"], &event["seq"]), (&json!("consent.changed"), &json!("svc-control-plane"), &json!(seq)));
            assert_ne!(event["machine_uuid"], json!(machine.uuid));
            world.included(person.cookie.clone(), event["event_id"].as_str().unwrap()).await;
        }
        assert!(world.server.app.store.outbox_chains(10).await.unwrap().is_empty());
    }
}

on_sqlite! {
    async fn events_over_the_consent_level_are_held_without_their_content(world: World) {
        let person = world.person("ada@example.com").await;
        let machine = world.attached_machine(&person).await;
        set(&world, person.cookie.clone(), json!({ "level": "metadata-only", "lane": "memory" })).await;
        let mut chain = Chain::new(&machine);
        let canary = "canary-7c1d2e";
        let event = chain.peek_with(|event| event["payload"]["content"] = json!(canary));
        world.event(&machine, &event).await.held("consent_exceeded");
        let llm = chain.next_with(|event| {
            event["event_type"] = json!("llm.completed");
            event["lane"] = json!("llm");
            event["payload"] = json!({ "model": "m" });
        });
        world.event(&machine, &llm).await.receipt();
        let unclassified = world.activity(person.cookie.clone(), "").await.expect(200)["unclassified"].clone();
        assert_eq!(unclassified[0]["reason"], "consent_exceeded");
        // On PostgreSQL the server has no database files; the row without a body is the same.
        assert!(!contains(world.dir.path(), canary.as_bytes()), "the content is in a file");
    }
}

/// Whether a file of the folder contains these bytes.
fn contains(folder: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).any(|path| {
        if path.is_dir() {
            contains(&path, bytes)
        } else {
            std::fs::read(&path).is_ok_and(|content| content.windows(bytes.len()).any(|window| window == bytes))
        }
    })
}

async fn world_over(upstream: &Upstream) -> World {
    world_with_outbox(upstream, Duration::from_millis(50)).await
}

/// The outbox sends waiting reports at this interval, besides the requests.
async fn world_with_outbox(upstream: &Upstream, every: Duration) -> World {
    World::over(upstream, |settings| {
        settings.consent.outbox_every = every;
        settings.upstream.breaker.failures = 0;
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consent_change_whose_audit_event_fails_stays_and_is_forwarded_later() {
    let upstream = Upstream::start().await;
    let world = world_over(&upstream).await;
    let person = world.person("ada@example.com").await;
    let machines = [world.attached_machine(&person).await, world.attached_machine(&person).await];
    upstream.go_down().await;
    let response = world.post(CONSENT, &person.cookie, &json!({ "level": "off" })).await;
    let body = response.refused(502, "consent_audit_forward_failed");
    assert_eq!(body, json!({ "error": "consent_audit_forward_failed", "written": 2 }));
    // The rows stay.
    assert_eq!(level(&world, &machines[0], "").await, "off");
    // A request without a change forwards no event, so it cannot fail.
    assert_eq!(set(&world, person.cookie.clone(), json!({ "level": "off" })).await, 0);
    upstream.come_back().await;
    eventually("both events arrived", async || (upstream.taken().len() == 2).then_some(())).await;
    eventually("the outbox is empty", async || {
        world.server.app.store.outbox_chains(10).await.unwrap().is_empty().then_some(())
    })
    .await;
    assert_eq!(
        set(&world, person.cookie.clone(), json!({ "level": "full", "machine_uuid": machines[0].uuid })).await,
        1
    );
    assert_eq!(upstream.taken().len(), 3);
    upstream.assert_no_surprises();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consent_event_that_the_upstream_already_has_is_not_resent_forever() {
    let upstream = Upstream::start().await;
    // No pass of the outbox runs at the same moment as the request that wrote the event.
    let world = world_with_outbox(&upstream, Duration::from_hours(1)).await;
    let machine = world.machine().await;
    let taken = json!({ "error": "event_id_conflict" });
    upstream.next(Script::reply(Reply::json(409, &taken)));
    assert_eq!(set(&world, &machine, json!({ "level": "off" })).await, 1);
    let store = &world.server.app.store;
    assert_eq!(store.outbox_chains(10).await.unwrap(), []);
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_lost_the_consent_chain_gets_a_new_epoch() {
    let upstream = Upstream::start().await;
    // No pass sends the report at the same moment as the request: it would take the answer that is meant for the request.
    let world = world_with_outbox(&upstream, Duration::from_hours(1)).await;
    let machine = world.machine().await;
    let lost = json!({ "error": "chain_conflict", "expected": { "chain_epoch": 4, "seq": 0, "prev": "GENESIS" } });
    upstream.next(Script::reply(Reply::json(409, &lost)));
    assert_eq!(set(&world, &machine, json!({ "level": "off" })).await, 1);
    let requests = upstream.requests();
    let sent: Vec<Value> = requests.iter().map(|request| serde_json::from_slice(&request.body).unwrap()).collect();
    assert_eq!(sent.iter().map(|event| &event["chain_epoch"]).collect::<Vec<_>>(), [&json!(0), &json!(5)]);
    assert_eq!(sent[0]["event_id"], sent[1]["event_id"]);
}
