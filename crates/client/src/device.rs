//! Registration and attachment of computers (`docs/protocol/computers.md`).

use domain::consent::ConsentLevel;
use domain::ids::MachineUuid;
use domain::secret::Secret;
use http::Method;
use wire::Done;
use wire::device::{
    ApproveRequest, CodeRequest, DEVICE_GRANT, DenyRequest, DeviceCodeResult, DeviceTokenRequest, DeviceTokenResult,
    MachineAbout, MachineRequest, MachineResult,
};

use crate::exchange::ApiRequest;
use crate::{Client, Error};

impl Client {
    /// `POST /api/v1/machines`. If the server requires a registration key, it is the client's bearer credential.
    pub async fn machine_register(&self, machine: &MachineRequest) -> Result<MachineResult, Error> {
        self.ask(ApiRequest::new(Method::POST, self.base("/api/v1/machines")).json(machine)?).await
    }

    /// `GET /api/v1/machines/{machine_uuid}`, as that computer: its account, if it is attached.
    pub async fn machine(&self, machine: MachineUuid) -> Result<MachineAbout, Error> {
        self.ask(ApiRequest::get(self.base(&format!("/api/v1/machines/{machine}")))).await
    }

    /// `DELETE /api/v1/machines/{machine_uuid}`: detaches a computer and revokes its machine secret.
    pub async fn machine_detach(&self, machine: MachineUuid) -> Result<Done, Error> {
        self.ask(ApiRequest::new(Method::DELETE, self.base(&format!("/api/v1/machines/{machine}")))).await
    }

    /// `POST /api/v1/device/code`, as the computer. Supersedes an earlier pending code.
    pub async fn device_code(&self, computer: &CodeRequest) -> Result<DeviceCodeResult, Error> {
        self.ask(ApiRequest::new(Method::POST, self.base("/api/v1/device/code")).json(computer)?).await
    }

    /// `POST /api/v1/device/token`, without polling; see [`Client::attached`].
    pub async fn device_token(&self, device_code: &Secret) -> Result<DeviceTokenResult, Error> {
        let body = DeviceTokenRequest { device_code: device_code.clone(), grant_type: DEVICE_GRANT.to_owned() };
        self.ask(ApiRequest::new(Method::POST, self.base("/api/v1/device/token")).json(&body)?.freely()).await
    }

    /// `POST /api/v1/device/approve`. Requires a session or an account token. No consent level changes.
    pub async fn device_approve(&self, user_code: &str) -> Result<Done, Error> {
        self.device_approve_with(user_code, None).await
    }

    /// Like [`device_approve`](Self::device_approve); `consent` becomes the level for all computers of the account, or an
    /// exception of this computer.
    pub async fn device_approve_with(&self, user_code: &str, consent: Option<ConsentLevel>) -> Result<Done, Error> {
        let body = ApproveRequest { user_code: user_code.to_owned(), consent };
        self.ask(ApiRequest::new(Method::POST, self.base("/api/v1/device/approve")).json(&body)?).await
    }

    /// `POST /api/v1/device/deny`, with the credential of a person or of one of the person's agents.
    pub async fn device_deny(&self, user_code: &str) -> Result<Done, Error> {
        let body = DenyRequest { user_code: user_code.to_owned() };
        self.ask(ApiRequest::new(Method::POST, self.base("/api/v1/device/deny")).json(&body)?).await
    }
}
