//! Complete sequences with the typed client: an agent, a computer and their person.

use std::time::Duration;

use client::{ActivityQuery, Client, Credential as Shown, Settings};
use domain::Rng;
use domain::checkpoint::VerifierKey;
use domain::consent::ConsentLevel;
use domain::log_part::LogPart;
use domain::secret::Secret;
use futures_util::StreamExt;
use proofs::proof::{AuditProof, verify};
use wire::account::KeyRequest;
use wire::agent_auth::{RegistrationVariant, SCOPE_ACCOUNT, SCOPE_EVENTS};
use wire::consent::{ConsentAnswer, ConsentRequest};
use wire::device::{CodeRequest, MachineRequest};
use wire::events::SubmitResult;
use wire::knowledge::{BatchMessage, BatchRequest, Note, SearchRequest, SpaceChange};

use blackbox::client::Credential;
use blackbox::world::World;
use harness::event::{Chain, Machine};
use harness::on_each_database;

fn attache(world: &World) -> Client {
    Client::new(&Settings::of(&world.url)).unwrap()
}

async fn person(world: &World) -> Client {
    let Credential::Cookie(pair) = world.person("ada@example.com").await.cookie else { unreachable!() };
    attache(world).with(Shown::Cookie(Secret::presented(pair)))
}

on_each_database! {
    async fn an_agent_is_claimed_renews_its_token_and_revokes_it(world: World) {
        let (attache, ada) = (attache(&world), person(&world).await);
        let registered = attache.register_for("ada@example.com").await.unwrap();
        let RegistrationVariant::ServiceAuth { claim } = &registered.variant else { panic!("{registered:?}") };
        assert_eq!(attache.token_by_claim(&registered.claim_token).await.unwrap_err().code(), Some("authorization_pending"));
        let attempt = claim.verification_uri.split_once("attempt=").unwrap().1;
        assert!(ada.complete(&Secret::presented(attempt), &claim.user_code).await.unwrap().ok);
        let mut pauses = Vec::new();
        let tokens = attache.claimed(&registered.claim_token, claim, |pause| pauses.push(pause)).await.unwrap();
        assert_eq!((tokens.scope.as_str(), pauses), (SCOPE_ACCOUNT, Vec::<Duration>::new()));

        let next = attache.token_by_assertion(&tokens.identity_assertion.unwrap()).await.unwrap();
        let agent = attache.with(Shown::Bearer(next.access_token.clone()));
        let summary = agent.account_summary().await.unwrap();
        assert_eq!(summary.errors.len() + summary.sections.others.len(), 0);
        assert_eq!(summary.sections.account.unwrap().email.as_deref(), Some("ada@example.com"));
        assert_eq!(summary.sections.agents.unwrap().agents[0].id, registered.registration_id);
        assert_eq!(summary.sections.plan_and_usage, Some(agent.usage_bar().await.unwrap()));
        attache.revoke(&next.access_token).await.unwrap();
        assert_eq!(agent.account_summary().await.unwrap_err().code(), Some("unauthorized"));
        assert!(ada.agent_revoke(registered.registration_id).await.unwrap().ok);
        assert!(ada.sessions().await.unwrap().sessions[0].current);
    }

    async fn a_computer_is_attached_and_its_events_are_proved(world: World) {
        let (attache, ada) = (attache(&world), person(&world).await);
        let rng = Rng::system();
        let request = MachineRequest {
            user_cuid: rng.cuid2().parse().unwrap(),
            machine_uuid: rng.uuid_v7(world.clock().now()).into(),
            name: Some("a laptop".into()),
        };
        let registered = attache.machine_register(&request).await.unwrap();
        let computer = attache.with(Shown::Bearer(registered.machine_secret.clone()));
        let (user_cuid, machine_uuid) = (request.user_cuid, request.machine_uuid);
        let code = computer.device_code(&CodeRequest { user_cuid: user_cuid.clone(), machine_uuid, api_key: None, agent: None }).await.unwrap();
        assert_eq!(attache.device_token(&code.device_code).await.unwrap_err().code(), Some("authorization_pending"));
        ada.device_approve(&code.user_code).await.unwrap();
        let attached = attache.attached(&code, |_| {}).await.unwrap();
        assert_eq!(ada.account_summary().await.unwrap().sections.account.unwrap().id, attached.user_account_id);
        assert_eq!(ada.account_computers().await.unwrap().computers[0].machine_uuid, machine_uuid);

        let machine = Machine {
            user_cuid: user_cuid.to_string(),
            uuid: machine_uuid.to_string(),
            secret: registered.machine_secret.expose().into(),
        };
        let event = Chain::new(&machine).next();
        let SubmitResult::Forwarded { receipt_id } = computer.event_submit(event.to_string()).await.unwrap() else {
            panic!("held")
        };
        // The same event again has the same receipt.
        assert_eq!(computer.event_submit(event.to_string()).await.unwrap(), SubmitResult::Forwarded { receipt_id });
        let event_id = event["event_id"].as_str().unwrap().parse().unwrap();
        let keys = attache.log_keys().await.unwrap().keys;
        let keys: Vec<VerifierKey> = keys.iter().map(|key| key.vkey.parse().unwrap()).collect();
        let proved = loop {
            let proof = AuditProof::parse(&computer.proof(event_id).await.unwrap()).unwrap();
            if let Some(proved) = keys.iter().find_map(|key| verify(&proof, key).ok()) {
                break proved;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(proved.receipt_id.to_string(), receipt_id.to_string());
        let page = ada.activity(&ActivityQuery { limit: Some(1), ..ActivityQuery::default() }).await.unwrap();
        assert_eq!(page.upstream["events"][0]["event_id"], event["event_id"]);
        assert_eq!(page.unclassified, Some(Vec::new()));

        let request = ConsentRequest { level: ConsentLevel::Off, reason: None, machine_uuid: None, lane: None };
        assert_eq!(ada.consent_set(&request).await.unwrap().written, 1);
        let now = computer.consent(None, None).await.unwrap();
        assert_eq!(now, ConsentAnswer::Effective { level: ConsentLevel::Off, paused_until: None });
        assert!(matches!(ada.consent(None, None).await.unwrap(), ConsentAnswer::Levels { levels, .. } if levels.len() == 1));
        let next = Chain::of_agent(&machine, "codex").next();
        assert!(matches!(computer.event_submit(next.to_string()).await.unwrap(), SubmitResult::Held { held: true, .. }));
        assert_eq!(ada.activity(&ActivityQuery::default()).await.unwrap().unclassified.unwrap()[0].reason, "consent_exceeded");
        ada.machine_detach(machine_uuid).await.unwrap();
        assert_eq!(computer.usage_bar().await.unwrap_err().code(), Some("machine_unknown"));
    }

    async fn added_memories_are_found_exported_and_deleted(world: World) {
        let ada = person(&world).await;
        let key = KeyRequest { name: "notes".into(), scopes: None, spaces: None, expires_at: None };
        let made = ada.key_create(&key).await.unwrap();
        assert_eq!(ada.keys().await.unwrap().keys, std::slice::from_ref(&made.about));
        let memory = attache(&world).with(Shown::Bearer(made.key));
        let space = memory.space_create("Garden", false).await.unwrap();
        let change = SpaceChange { is_favorite: Some(true), ..SpaceChange::default() };
        assert!(memory.space_change(space.id, &change).await.unwrap().is_favorite);
        assert!(memory.spaces().await.unwrap().iter().any(|other| other.id == space.id));
        let batch = BatchRequest {
            urls: Some(vec!["http://192.168.0.1/".into()]),
            contents: Some(vec![Note { content: "Prune roses in March.".into(), title: Some("Roses".into()), kind: None }]),
            spaces: Some(vec![space.id.as_uuid()]),
        };
        let mut stream = memory.batch_add(&batch).await.unwrap();
        let (mut added, mut failed, mut last) = (Vec::new(), Vec::new(), None);
        while let Some(message) = stream.next().await {
            last = Some(message.unwrap());
            match last.as_ref().unwrap() {
                BatchMessage::Success { id, .. } => added.push(*id),
                BatchMessage::Error { error, .. } => failed.push(error.clone()),
                _ => {}
            }
        }
        assert_eq!((added.len(), failed, last), (1, vec!["blocked_address".to_owned()], Some(BatchMessage::Complete)));
        // Rejoined after the message before the last, the stream repeats the end.
        let before = format!("{}:4", stream.batch());
        let mut again = memory.batch_join(stream.batch(), Some(&before)).await.unwrap();
        assert_eq!(again.next().await.unwrap().unwrap(), BatchMessage::Complete);
        assert!(again.next().await.is_none());
        memory.batch_cancel(stream.batch()).await.unwrap();

        let query = SearchRequest { query: Some("when are roses cut?".into()), ..SearchRequest::default() };
        let found = memory.search(&query).await.unwrap().results;
        assert_eq!((found[0].id, found[0].title.as_str()), (added[0], "Roses"));
        assert_eq!(memory.memory(added[0]).await.unwrap().spaces, [space.id]);
        let mut lines = Vec::new();
        let mut export = std::pin::pin!(memory.export().await.unwrap());
        while let Some(piece) = export.next().await {
            lines.extend_from_slice(&piece.unwrap());
        }
        assert_eq!(serde_json::from_slice::<wire::knowledge::Memory>(&lines).unwrap().id, added[0]);
        let mut settings = memory.settings().await.unwrap().settings;
        settings.exclude_items = vec!["sponsored".into()];
        assert_eq!(memory.settings_replace(&settings).await.unwrap().settings, settings);
        memory.memory_delete(added[0]).await.unwrap();
        assert!(memory.search(&query).await.unwrap().results.is_empty());
        ada.key_revoke(made.about.id).await.unwrap();
        assert_eq!(memory.spaces().await.unwrap_err().code(), Some("unauthorized"));
    }

    async fn an_unclaimed_agent_has_its_events_held(world: World) {
        let attache = attache(&world);
        let registered = attache.register_anonymous().await.unwrap();
        let RegistrationVariant::Anonymous { identity_assertion, .. } = registered.variant else { unreachable!() };
        let tokens = attache.token_by_assertion(&identity_assertion).await.unwrap();
        assert_eq!((tokens.scope.as_str(), tokens.identity_assertion), (SCOPE_EVENTS, None));
        let agent = attache.with(Shown::Bearer(tokens.access_token));
        let event = Chain::new(&world.machine().await).next();
        let SubmitResult::Held { warning, .. } = agent.event_submit(event.to_string()).await.unwrap() else { panic!() };
        assert!(warning.starts_with("unattributed: "), "{warning}");
        let types = attache.event_registry().await.unwrap().event_types;
        assert!(types.iter().any(|known| known.event_type == event["event_type"]));
        assert!(!attache.checkpoint(LogPart::FIRST).await.unwrap().is_empty());
    }
}
