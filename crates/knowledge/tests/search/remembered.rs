//! A cache of the bundled model: a text that the same model has embedded in an earlier run is not embedded again.
//!
//! The vectors are in a file of the build folder. The file name is the digest of the model's crate, code and weights, so a change of the
//! model starts an empty file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{env, fs};

use domain::Digest;
use domain::memory::ModelId;
use knowledge::embed::{EmbedError, Embedder};
use knowledge::search::Embed;

const DIGEST_BYTES: usize = 32;

/// An embedder that asks the model only for texts that are not in its file.
#[derive(Clone)]
pub struct Remembered {
    model: Embedder,
    vectors: Arc<Mutex<HashMap<Digest, Vec<f32>>>>,
    file: PathBuf,
}

impl Remembered {
    /// Reads the vectors of earlier runs.
    pub fn of(model: Embedder) -> Self {
        let mut parts = Vec::new();
        for part in ["src", "Cargo.toml", "SHA256SUMS", "all-minilm-l6-v2.q8"] {
            collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("model").join(part), &mut parts);
        }
        // Vector instructions of another processor may round differently.
        parts.push(env::consts::ARCH.as_bytes().to_vec());
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("vectors-{}", Digest::of_parts(&parts)));
        let size = DIGEST_BYTES + 4 * model.model().map_or(0, |model| usize::from(model.dimensions));
        let bytes = fs::read(&file).unwrap_or_default();
        let vectors = bytes.chunks_exact(size).map(|record| {
            let (digest, numbers) = record.split_first_chunk::<DIGEST_BYTES>().unwrap();
            let (numbers, _) = numbers.as_chunks::<4>();
            (Digest::from(*digest), numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
        });
        Self { model, vectors: Arc::new(Mutex::new(vectors.collect())), file }
    }

    /// Stores the vectors for later runs.
    pub fn save(&self) {
        let mut bytes = Vec::new();
        for (digest, vector) in &*self.vectors.lock().unwrap() {
            bytes.extend_from_slice(digest.as_bytes());
            bytes.extend(vector.iter().flat_map(|number| number.to_le_bytes()));
        }
        // Complete or absent: another run may read it at any moment.
        let new = self.file.with_extension(std::process::id().to_string());
        fs::write(&new, bytes).unwrap();
        fs::rename(new, &self.file).unwrap();
    }

    fn vector(&self, text: &str) -> Option<Vec<f32>> {
        self.vectors.lock().unwrap().get(&Digest::of(text.as_bytes())).cloned()
    }
}

/// The files below a path, in the order of their names.
fn collect(path: &Path, parts: &mut Vec<Vec<u8>>) {
    if path.is_dir() {
        let mut below: Vec<PathBuf> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        below.sort();
        for path in below {
            collect(&path, parts);
        }
    } else {
        parts.push(path.file_name().unwrap().as_encoded_bytes().to_vec());
        parts.push(fs::read(path).unwrap());
    }
}

impl Embed for Remembered {
    type Error = EmbedError;

    fn model(&self) -> Option<&ModelId> {
        self.model.model()
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, EmbedError> {
        let new: Vec<String> = texts.iter().filter(|text| self.vector(text).is_none()).cloned().collect();
        let vectors = self.model.embed(new.clone()).await?;
        let new = new.iter().map(|text| Digest::of(text.as_bytes()));
        self.vectors.lock().unwrap().extend(new.zip(vectors));
        Ok(texts.iter().map(|text| self.vector(text).unwrap()).collect())
    }

    async fn embed_query(&self, text: String) -> Result<Vec<f32>, EmbedError> {
        if let Some(vector) = self.vector(&text) {
            return Ok(vector);
        }
        let vector = self.model.embed_query(text.clone()).await?;
        self.vectors.lock().unwrap().insert(Digest::of(text.as_bytes()), vector.clone());
        Ok(vector)
    }
}
