//! Builds the services of the knowledge API.

use std::sync::Arc;

use actors::ActorKind;
use actors::ingest::{self, Ingestion};
use domain::fair::FairLimits;
use extract::fair::FairPlaces;
use extract::{Extractor, WorkerCommand};
use knowledge::Pipeline;
use knowledge::embed::Embedder;
use knowledge::fetch::{Fetcher, FetcherDependencies, FetcherError};
use knowledge::filter::Filter;
use knowledge::prepare::PipelineStages;
use knowledge::search::Search;

use super::builder::Builder;
use super::error::BuildError;
use crate::config::{KnowledgeSettings, Settings};
use crate::installation::{MemoryKeeper, memory_settings};

pub(super) struct KnowledgeServices {
    pub pipeline: Pipeline,
    pub search: Search<Embedder>,
    pub ingestion: Ingestion,
}

impl Builder<'_> {
    pub(super) async fn knowledge(&self) -> Result<KnowledgeServices, BuildError> {
        let pipeline = self.pipeline()?;
        let (embedder, settings) = (pipeline.stages().embedder.clone(), self.settings.knowledge.search.clone());
        let ingestion = self.ingestion(&pipeline);
        let search = Search::new(self.store.clone(), embedder, settings);
        if self.store.is_memory_open() {
            search.index().prepare().await?;
        }
        Ok(KnowledgeServices { pipeline, search, ingestion })
    }

    /// Opens a separate database of the memory; `None` if there is none.
    pub(super) fn memory_keeper(&self, search: &Search<Embedder>) -> Option<MemoryKeeper> {
        let (store, clock, rng) = (self.store.clone(), self.clock.clone(), self.rng.clone());
        let settings = memory_settings(self.settings)?;
        Some(MemoryKeeper { store, settings, search: search.clone(), clock, rng })
    }

    /// The stages from a URL to vectors.
    fn pipeline(&self) -> Result<Pipeline, BuildError> {
        let knowledge = &self.settings.knowledge;
        let failed = |why: &(dyn std::error::Error + 'static)| BuildError::Knowledge(domain::reasons(why));
        Ok(Pipeline::new(PipelineStages {
            fetcher: Arc::new(self.fetcher().map_err(|error| failed(&error))?),
            extractor: extractor(knowledge).map_err(|error| failed(&error))?,
            filter: Filter::new(&knowledge.llm).map_err(|error| failed(&error))?,
            chunk: knowledge.chunk.clone(),
            embedder: Embedder::new(&knowledge.embedding, self.rng).map_err(|error| failed(&error))?,
        }))
    }

    fn fetcher(&self) -> Result<Fetcher, FetcherError> {
        let dependencies = FetcherDependencies::system(&self.urls.base, self.clock.clone(), self.rng.clone());
        Fetcher::new(self.settings.knowledge.fetch.clone(), dependencies)
    }

    fn ingestion(&self, pipeline: &Pipeline) -> Ingestion {
        let import = &self.settings.knowledge.import;
        let dependencies = ingest::Dependencies {
            store: self.store.clone(),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            pipeline: pipeline.clone(),
            settings: self.live.part(|settings| settings.knowledge.batch.clone()),
            lines: FairPlaces::new(FairLimits::new(import.lines_at_once_max, import.lines_at_once_per_account_max)),
            imports_running_max: import.running_per_account_max,
            quota: self.live.part(Settings::memory_quota),
            rag_url: self.urls.rag.clone(),
            runner: self.rng.uuid_v7(self.clock.now()).to_string(),
            pauses: self.pauses.clone(),
            leaves: std::sync::atomic::AtomicBool::new(false),
        };
        Ingestion::new(dependencies, self.settings.actors.of(ActorKind::Batches))
    }
}

/// The worker processes that extract the text of pages and PDFs.
pub fn extractor(settings: &KnowledgeSettings) -> std::io::Result<Extractor> {
    let command = match &settings.worker {
        Some(program) => WorkerCommand::of(program.clone()),
        None => WorkerCommand::of_this_program()?,
    };
    Ok(Extractor::new(command, settings.extract.clone()))
}
