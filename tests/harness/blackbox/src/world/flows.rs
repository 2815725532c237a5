//! Sequences of requests that lead to a registered computer, a signed-in person or a claimed agent.

use chrono::TimeDelta;
use domain::ids::{RegistrationId, UserAccountId};
use domain::secret::{Secret, SecretKind};
use domain::signin::SignInMethod;
use harness::event::Machine;
use serde_json::{Value, json};
use store::session::NewSession;

use super::World;
use crate::client::{Credential, attempt_of};
use crate::eventually;

/// A signed-in person with an account.
#[derive(Debug, Clone)]
pub struct Person {
    /// The id of the account.
    pub account: UserAccountId,
    /// The session.
    pub cookie: Credential,
}

/// A claimed agent.
#[derive(Debug, Clone)]
pub struct Agent {
    /// The id of the registration.
    pub id: RegistrationId,
    /// The claim token of the registration.
    pub claim_token: String,
    /// The access token.
    pub token: Credential,
    /// The identity assertion, a JWT.
    pub assertion: String,
}

impl World {
    /// Registers a computer under a new identity.
    pub async fn machine(&self) -> Machine {
        self.machine_of(&self.rng().cuid2()).await
    }

    /// Registers a computer under this identity.
    pub async fn machine_of(&self, user_cuid: &str) -> Machine {
        let uuid = self.rng().uuid_v7(self.clock().now()).to_string();
        let body = json!({ "user_cuid": user_cuid, "machine_uuid": uuid });
        let registered = self.post("/api/v1/machines", &Credential::None, &body).await.expect(201);
        let secret = registered["machine_secret"].as_str().unwrap().to_owned();
        Machine { user_cuid: user_cuid.to_owned(), uuid, secret }
    }

    /// Registers a computer and attaches it to a person's account.
    pub async fn attached_machine(&self, person: &Person) -> Machine {
        let machine = self.machine().await;
        let code = self.device_code(&machine).await.expect(200);
        self.device_approve(&person.cookie, code["user_code"].as_str().unwrap()).await.expect(200);
        let attached = self.device_token(code["device_code"].as_str().unwrap()).await.expect(200);
        assert_eq!(attached["user_account_id"], person.account.as_str());
        machine
    }

    /// Signs a person in who has an account.
    pub async fn person(&self, email: &str) -> Person {
        let (person, cookie) = self.signed_in(email, true).await;
        Person { account: person.account.unwrap(), cookie }
    }

    /// Signs a person in who has no account.
    pub async fn visitor(&self, email: &str) -> Credential {
        self.signed_in(email, false).await.1
    }

    /// Signs a person in; `create_account` decides whether a new person gets an account.
    pub async fn signed_in(&self, email: &str, create_account: bool) -> (store::account::Person, Credential) {
        let app = &self.server.app;
        let (now, email) = (self.clock().now(), email.parse().unwrap());
        let person = app.store.person_sign_in(&email, create_account, now, &app.rng).await.unwrap();
        let secret = Secret::mint(SecretKind::Session, &app.rng);
        let new = NewSession {
            token: secret.hash(),
            id: app.rng.uuid_v7(now).into(),
            person: person.id,
            via: SignInMethod::Operator,
            address: None,
            user_agent: None,
            expires_at: now + TimeDelta::days(7),
        };
        app.store.session_create(&new, None, now).await.unwrap();
        let prefix = if app.urls.base.starts_with("https://") { "__Secure-" } else { "" };
        (person, Credential::Cookie(format!("{prefix}attache.session_token={}", secret.expose())))
    }

    /// Registers an agent anonymously; `person` claims it.
    pub async fn agent_of(&self, person: &Person) -> Agent {
        self.agent_by(&person.cookie).await
    }

    /// Registers an agent anonymously; the owner of this credential confirms the claim.
    pub async fn agent_by(&self, confirmer: &Credential) -> Agent {
        let registered = self.identity(json!({ "type": "anonymous" })).await.expect(200);
        let claim_token = registered["claim_token"].as_str().unwrap().to_owned();
        let claim = self.claim(json!({ "claim_token": claim_token })).await.expect(200)["claim"].clone();
        self.complete(confirmer, &attempt_of(&claim), claim["user_code"].as_str().unwrap()).await.expect(200);
        let tokens = self.token_by_claim(&claim_token).await.expect(200);
        Agent {
            id: registered["registration_id"].as_str().unwrap().parse().unwrap(),
            claim_token,
            token: Credential::Bearer(tokens["access_token"].as_str().unwrap().into()),
            assertion: tokens["identity_assertion"].as_str().unwrap().into(),
        }
    }

    /// Registers an agent that stays unclaimed; returns the registration and its access token.
    pub async fn unclaimed(&self) -> (Value, Credential) {
        let registered = self.identity(json!({ "type": "anonymous" })).await.expect(200);
        let tokens = self.token_by_assertion(registered["identity_assertion"].as_str().unwrap()).await.expect(200);
        (registered, Credential::Bearer(tokens["access_token"].as_str().unwrap().into()))
    }

    /// Waits until an event is in the Merkle tree; returns its proof.
    pub async fn included(&self, credential: impl Into<Credential> + Clone, event_id: &str) -> Value {
        eventually("the event is in the tree", async || {
            let proof = self.proof(credential.clone(), event_id).await.expect(200);
            (proof["status"] == "included").then_some(proof)
        })
        .await
    }
}
