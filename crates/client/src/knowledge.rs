//! Spaces, batches, search, settings and memories (`docs/protocol/knowledge.md`). Requires an API key as the bearer
//! credential.

use bytes::Bytes;
use domain::filter::FilterSettings;
use domain::ids::{BatchId, MemoryId, SpaceId};
use futures_util::Stream;
use http::Method;
use wire::Done;
use wire::account::Key;
use wire::knowledge::{
    BatchRequest, Memory, MemoryChange, MemoryList, SearchRequest, SearchResults, Settings, SettingsChanged, Space,
    SpaceChange, SpaceChanged, SpaceCreated, SpaceDeleted, SpaceRequest, Spaces,
};

use crate::exchange::ApiRequest;
use crate::stream::BatchStream;
use crate::{Client, Error};

impl Client {
    /// `GET /v1/key`: the key of the request itself, without its secret.
    pub async fn key(&self) -> Result<Key, Error> {
        self.ask(ApiRequest::get(self.rag("/v1/key"))).await
    }

    /// `POST /v1/search`: memories by similarity to a query.
    pub async fn search(&self, request: &SearchRequest) -> Result<SearchResults, Error> {
        self.ask(ApiRequest::new(Method::POST, self.rag("/v1/search")).json(request)?.freely()).await
    }

    /// `POST /v1/spaces/create`: a new space, owned by the account of the key.
    pub async fn space_create(&self, name: &str, is_public: bool) -> Result<Space, Error> {
        let body = SpaceRequest { space_name: name.to_owned(), is_public: Some(is_public) };
        let ask = ApiRequest::new(Method::POST, self.rag("/v1/spaces/create")).json(&body)?;
        Ok(self.ask::<SpaceCreated>(ask).await?.space)
    }

    /// `GET /v1/spaces`: the default space first, then newest first.
    pub async fn spaces(&self) -> Result<Vec<Space>, Error> {
        Ok(self.ask::<Spaces>(ApiRequest::get(self.rag("/v1/spaces"))).await?.spaces)
    }

    /// `PATCH /v1/spaces/{id}`: changes name, visibility or the favorite mark.
    pub async fn space_change(&self, space: SpaceId, change: &SpaceChange) -> Result<Space, Error> {
        let ask = ApiRequest::new(Method::PATCH, self.rag(&format!("/v1/spaces/{space}"))).json(change)?;
        Ok(self.ask::<SpaceChanged>(ask).await?.space)
    }

    /// `DELETE /v1/spaces/{id}`: deletes a space; its memories move to the default space unless another contains them.
    pub async fn space_delete(&self, space: SpaceId) -> Result<SpaceDeleted, Error> {
        self.ask(ApiRequest::new(Method::DELETE, self.rag(&format!("/v1/spaces/{space}")))).await
    }

    /// `POST /v1/batch-add`: returns once the batch is committed.
    pub async fn batch_add(&self, request: &BatchRequest) -> Result<BatchStream, Error> {
        BatchStream::begun(self, request).await
    }

    /// `GET /v1/batch-add/{id}`: joins the stream from its first message, or after a message.
    pub async fn batch_join(&self, batch: BatchId, after: Option<&str>) -> Result<BatchStream, Error> {
        BatchStream::joined(self, batch, after).await
    }

    /// `DELETE /v1/batch-add/{id}`: cancels a batch; items without an outcome get the error `cancelled`.
    pub async fn batch_cancel(&self, batch: BatchId) -> Result<Done, Error> {
        self.ask(ApiRequest::new(Method::DELETE, self.rag(&format!("/v1/batch-add/{batch}"))).freely()).await
    }

    /// `GET /v1/settings`: the filter settings of the account.
    pub async fn settings(&self) -> Result<Settings, Error> {
        self.ask(ApiRequest::get(self.rag("/v1/settings"))).await
    }

    /// `PUT /v1/settings`: replaces all settings.
    pub async fn settings_replace(&self, settings: &FilterSettings) -> Result<SettingsChanged, Error> {
        self.ask(ApiRequest::new(Method::PUT, self.rag("/v1/settings")).json(settings)?.freely()).await
    }

    /// `GET /v1/memories/{id}`: a memory with its whole content.
    pub async fn memory(&self, memory: MemoryId) -> Result<Memory, Error> {
        self.ask(ApiRequest::get(self.rag(&format!("/v1/memories/{memory}")))).await
    }

    /// `GET /v1/memories`: a page of memories, newest first, after the `cursor` of the previous page.
    pub async fn memories(&self, cursor: Option<&str>) -> Result<MemoryList, Error> {
        let query = cursor.map(|cursor| format!("?cursor={cursor}")).unwrap_or_default();
        self.ask(ApiRequest::get(self.rag(&format!("/v1/memories{query}")))).await
    }

    /// `PATCH /v1/memories/{id}`: changes title, text, tags or spaces.
    pub async fn memory_change(&self, memory: MemoryId, change: &MemoryChange) -> Result<Memory, Error> {
        let ask = ApiRequest::new(Method::PATCH, self.rag(&format!("/v1/memories/{memory}"))).json(change)?;
        self.ask(ask.freely()).await
    }

    /// `DELETE /v1/memories/{id}`: removes a memory from the spaces of the key, and deletes it if no other space contains it.
    pub async fn memory_delete(&self, memory: MemoryId) -> Result<Done, Error> {
        self.ask(ApiRequest::new(Method::DELETE, self.rag(&format!("/v1/memories/{memory}")))).await
    }

    /// `GET /v1/export`: the raw stream, one JSON object per line. An error at its end means that the export is
    /// incomplete.
    pub async fn export(&self) -> Result<impl Stream<Item = Result<Bytes, Error>> + use<>, Error> {
        let response = self.ask_stream(ApiRequest::get(self.rag("/v1/export"))).await?;
        Ok(self.lines(response))
    }

    /// `POST /v1/import`: imports the lines of an export; the raw stream has one JSON object per line, and the last one is `complete`. An
    /// import can be repeated.
    pub async fn import(&self, lines: Bytes) -> Result<impl Stream<Item = Result<Bytes, Error>> + use<>, Error> {
        let ask = ApiRequest::new(Method::POST, self.rag("/v1/import")).ndjson(lines).freely();
        let response = self.ask_stream(ask).await?;
        Ok(self.lines(response))
    }
}
