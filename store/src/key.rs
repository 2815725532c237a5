//! The server's own keys, made once and kept beside the facts that they protect.

use domain::Rng;
use domain::secret::CodeKey;

use crate::error::{During, StoreError};
use crate::row::bytes;
use crate::{Store, in_transaction};

impl Store {
    /// The key under which short codes are sealed, made by whoever asks first, in whichever process.
    pub async fn code_key(&self, rng: &Rng) -> Result<CodeKey, StoreError> {
        const ADD: &str = "INSERT INTO server_keys (name, secret) VALUES ('code', $1) ON CONFLICT (name) DO NOTHING";
        const GET: &str = "SELECT secret FROM server_keys WHERE name = 'code'";
        let drawn: [u8; 32] = rng.bytes();
        let kept: Vec<u8> = in_transaction!(&self.pool, |tx| {
            sqlx::query(ADD).bind(&drawn[..]).execute(&mut *tx).await?;
            sqlx::query_scalar(GET).fetch_one(&mut *tx).await
        })
        .during("get the key of short codes")?;
        Ok(CodeKey::new(bytes("server_keys.secret", &kept)?))
    }
}
